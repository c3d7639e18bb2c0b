-- A score is shown only where all choices that it is the sum of are: else the difference would reveal the hidden one.
create or replace view intake_raw.safe_scores as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_answer_groups where is_shown and kind in ('question', 'value')
), hidden as (
  select a.team_id, a.response_id, i.instrument
  from intake_raw.safe_answers a
  join intake_analytics.instrument_questions i using (team_id, form_id, question_id)
  where a.is_answered and (
    (select items from known) ? intake_ops.group_item(a.team_id, 'question', a.form_id, a.question_id, a.question_id)::text
    and (select items from known) ? intake_ops.group_item(a.team_id, 'value', a.form_id, a.question_id, a.choice)::text
  ) is not true
  group by a.team_id, a.response_id, i.instrument
)
select s.team_id, s.response_id, s.patient, hashtextextended(s.patient, 0) as person, s.form_id, s.form,
  s.instrument, s.title, s.items, extract(year from s.submitted_at at time zone 'UTC')::int as submitted_year,
  case when hidden.response_id is null then s.score end as score,
  case when hidden.response_id is null then s.band end as band
from intake_analytics.scores s
left join hidden using (team_id, response_id, instrument);

comment on view intake_raw.safe_scores is 'Scores for intake_safe_harbor, before small groups are hidden.';
