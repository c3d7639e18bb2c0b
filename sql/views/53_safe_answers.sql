-- The condition is a case: the planner expects that every second row satisfies it. Of the operator alone it expects one in a
-- thousand, and joins row by row. It names the response, so that it is asked after the join with the questions and not before,
-- which would make the planner expect one question.
create or replace view intake_safe_harbor.answers with (security_barrier = true) as
with forms as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown and kind in ('form', 'is_submitted', 'submitted_year')
), known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_answer_groups where is_shown
), bounds as materialized (
  select * from intake_raw.safe_number_bounds
), looked_up as (
  select a.*,
    (select items from forms) ? hashtextextended(a.is_submitted::text, a.form_item # 1)::text as has_submitted,
    (select items from forms) ? hashtextextended(a.submitted_year::text, a.form_item # 5)::text as has_year,
    (select items from known) ? hashtextextended(a.is_answered::text, a.question_item # 1)::text as has_answered,
    (select items from known) ? hashtextextended(coalesce(a.choice, a.value_boolean::text, a.value_year::text), a.question_item)::text as has_value
  from intake_raw.safe_answers a
  where case
    when a.response_id is not null and (select items from forms) ? a.form_item::text
    then (select items from known) ? a.question_item::text
  end
)
select a.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'response', a.team_id, a.response_id) as response_id,
  a.value_position,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', a.team_id, a.patient) as patient,
  a.form_code as form_id, a.form,
  case when a.has_submitted then a.is_submitted end as is_submitted,
  case when a.has_submitted and a.has_year then a.submitted_year end as submitted_year,
  a.question_code as question_id,
  a.question_text, a.question_type, a.concept, a.is_shown,
  case when a.has_answered then a.is_answered end as is_answered,
  case when a.has_value then a.choice end as choice,
  case when bounds.team_id is not null
    then least(greatest(a.value_number, bounds.least_number), bounds.greatest_number) + 0 * a.value_number end as value_number,
  case when a.has_value then a.value_boolean end as value_boolean,
  case when a.has_value then a.value_year end as value_year
from looked_up a
cross join intake_ops.analytics_key k
left join bounds on bounds.team_id = a.team_id and bounds.form_id = a.form_id and bounds.question_id = a.question_id;

comment on view intake_safe_harbor.answers is 'One row per value of an answer, of forms and questions that at least eleven patients have. Free text is not shown.';
comment on column intake_safe_harbor.answers.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.answers.response_id is 'Code of the response (intake_safe_harbor.responses).';
comment on column intake_safe_harbor.answers.value_position is 'Place of the value in the answer, from 1.';
comment on column intake_safe_harbor.answers.patient is 'Code of the patient (intake_safe_harbor.patients).';
comment on column intake_safe_harbor.answers.form_id is 'Code of the form.';
comment on column intake_safe_harbor.answers.form is 'Name of the form as it is now.';
comment on column intake_safe_harbor.answers.is_submitted is 'True when the response was submitted.';
comment on column intake_safe_harbor.answers.submitted_year is 'Year in which the response was submitted.';
comment on column intake_safe_harbor.answers.question_id is 'Code of the question.';
comment on column intake_safe_harbor.answers.question_text is 'Text of the question as the form has it now.';
comment on column intake_safe_harbor.answers.question_type is 'Its type, as the service names it.';
comment on column intake_safe_harbor.answers.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_safe_harbor.answers.is_shown is 'Whether its values may be seen at all: choices and ticks by their type, numbers and years by classify set --researchers.';
comment on column intake_safe_harbor.answers.is_answered is 'Whether there is an answer, also where it may not be seen.';
comment on column intake_safe_harbor.answers.choice is 'The choice, if the form offers it and at least eleven patients selected it; ages of 90 and over are 90+.';
comment on column intake_safe_harbor.answers.value_number is 'The number, where researchers may see it; an age of 90 or over is 90. At both ends the number of the eleventh patient stands for those beyond.';
comment on column intake_safe_harbor.answers.value_boolean is 'The tick of a checkbox.';
comment on column intake_safe_harbor.answers.value_year is 'The year of a date, where researchers may see it; null if it is 90 years ago or longer.';
