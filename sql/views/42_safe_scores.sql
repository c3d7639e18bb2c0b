-- Of every response to a form that asks an instrument, also of those that have no score: else the few without a row would be
-- known. A score is shown only where all choices that it is the sum of are: else the difference would reveal the hidden one.
-- Grouped, not joined: a join of so many rows, of whose number the planner knows nothing, may take minutes. Which questions are
-- items is found once: the planner expects one answer, and would find it again for each.
create or replace view intake_raw.safe_scores as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_answer_groups where is_shown and kind in ('question', 'value')
), scored as materialized (
  select * from intake_analytics.scores
), asked as materialized (
  select distinct team_id, form_id, instrument, title, items from scored
), items as materialized (
  select team_id, form_id, question_id, instrument from intake_analytics.instrument_questions
), parts as (
  select r.team_id, r.response_id, r.patient, r.person, r.form_id, r.form, i.instrument, i.title, i.items, r.submitted_year,
    r.is_submitted, r.form_item, true as is_response, false as is_hidden, null::numeric as score, null::text as band
  from intake_raw.safe_responses r
  join asked i on i.team_id = r.team_id and i.form_id = r.form_id
  union all
  select team_id, response_id, null, null, null, null, instrument, null, null, null, null, null, false, false, score, band
  from scored
  union all
  select a.team_id, a.response_id, null, null, null, null, i.instrument, null, null, null, null, null, false, true, null, null
  from intake_raw.safe_answers a
  join items i on i.team_id = a.team_id and i.form_id = a.form_id and i.question_id = a.question_id
  where a.is_answered and (
    (select items from known) ? a.question_item::text
    and (select items from known) ? hashtextextended(a.choice, a.question_item)::text
  ) is not true
)
select team_id, response_id, min(patient) as patient, min(person) as person, min(form_id) as form_id, min(form) as form,
  instrument, min(title) as title, min(items) as items, min(submitted_year) as submitted_year,
  case when not bool_or(is_hidden) then min(score) end as score,
  case when not bool_or(is_hidden) then min(band) end as band,
  bool_or(is_submitted) as is_submitted, min(form_item) as form_item
from parts
group by team_id, response_id, instrument
having bool_or(is_response);

comment on view intake_raw.safe_scores is 'Scores for intake_safe_harbor, before small groups are hidden.';
