-- Of every response to a form that asks an instrument, also of those that have no score: else the few without a row would be
-- known. A score is shown only where all choices that it is the sum of are: else the difference would reveal the hidden one.
create or replace view intake_raw.safe_scores as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_answer_groups where is_shown and kind in ('question', 'value')
), scored as materialized (
  select * from intake_analytics.scores
), asked as materialized (
  select distinct team_id, form_id, instrument, title, items from scored
), hidden as (
  select a.team_id, a.response_id, i.instrument
  from intake_raw.safe_answers a
  join intake_analytics.instrument_questions i using (team_id, form_id, question_id)
  where a.is_answered and (
    (select items from known) ? a.question_item::text
    and (select items from known) ? hashtextextended(a.choice, a.question_item)::text
  ) is not true
  group by a.team_id, a.response_id, i.instrument
)
select r.team_id, r.response_id, r.patient, r.person, r.form_id, r.form,
  i.instrument, i.title, i.items, r.submitted_year,
  case when hidden.response_id is null then s.score end as score,
  case when hidden.response_id is null then s.band end as band,
  r.is_submitted, r.form_item
from intake_raw.safe_responses r
join asked i using (team_id, form_id)
left join scored s using (team_id, response_id, instrument)
left join hidden using (team_id, response_id, instrument);

comment on view intake_raw.safe_scores is 'Scores for intake_safe_harbor, before small groups are hidden.';
