-- A cell is shown only if the same choice is shown in answers: else what is hidden there would be seen here. A cell of several
-- choices is hidden.
create or replace view intake_safe_harbor.export_answers with (security_barrier = true) as
with forms as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown and kind in ('form')
), answers as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_answer_groups where is_shown and kind in ('question', 'value')
), own as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_export_groups where is_shown
), looked_up as (
  select e.*,
    (select items from own) ? intake_ops.group_item(e.team_id, 'completed_year', e.export_id, null, e.completed_year::text)::text as has_year,
    (select items from answers) ? hashtextextended(coalesce(e.choice, e.value_boolean::text), e.question_item)::text
      and (select items from own) ? intake_ops.group_item(e.team_id, 'value', e.export_id, e.question_id, coalesce(e.choice, e.value_boolean::text))::text as has_value
  from intake_raw.safe_export_answers e
  where case
    when (select items from forms) ? e.form_item::text
      and (select items from answers) ? e.question_item::text
    then (select items from own) ? intake_ops.group_item(e.team_id, 'question', e.export_id, e.question_id, e.question_id)::text
  end
)
select e.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'export', e.team_id, e.export_id) as export_id,
  e.form_code as form_id, e.form,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'export row', e.team_id, e.export_id || ':' || e.row_number) as row_id,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', e.team_id, e.patient) as patient,
  case when e.has_year then e.completed_year end as completed_year,
  e.question_code as question_id,
  e.question_text, e.question_type, e.concept, e.is_shown,
  case when e.has_value then e.choice end as choice,
  case when e.has_value then e.value_boolean end as value_boolean
from looked_up e
cross join intake_ops.analytics_key k;

comment on view intake_safe_harbor.export_answers is 'One row per cell of an export''s file whose question at least eleven patients were asked: choices and ticks.';
comment on column intake_safe_harbor.export_answers.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.export_answers.export_id is 'Code of the export.';
comment on column intake_safe_harbor.export_answers.form_id is 'Code of the form whose answers it contains.';
comment on column intake_safe_harbor.export_answers.form is 'Name of the form.';
comment on column intake_safe_harbor.export_answers.row_id is 'Code of the row.';
comment on column intake_safe_harbor.export_answers.patient is 'Code of the patient (intake_safe_harbor.patients).';
comment on column intake_safe_harbor.export_answers.completed_year is 'Year in which it was completed.';
comment on column intake_safe_harbor.export_answers.question_id is 'Code of the question that the column was matched to.';
comment on column intake_safe_harbor.export_answers.question_text is 'Text of the question.';
comment on column intake_safe_harbor.export_answers.question_type is 'Its type, as the service names it.';
comment on column intake_safe_harbor.export_answers.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_safe_harbor.export_answers.is_shown is 'Whether its values may be seen at all.';
comment on column intake_safe_harbor.export_answers.choice is 'The choice, where it is one and at least eleven patients selected it, both here and in answers.';
comment on column intake_safe_harbor.export_answers.value_boolean is 'The tick of a checkbox.';

do $comments$
declare
  own record;
begin
  for own in
    select format('intake_raw.%I.%I', c.relname, a.attname) as name
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'intake_raw'::regnamespace and c.relkind = 'v' and c.relname ~ '^safe_'
    order by c.relname, a.attnum
  loop
    execute format('comment on column %s is %L', own.name, 'As the column of that name in intake_safe_harbor and intake_analytics, for the views of intake_safe_harbor.');
  end loop;
end
$comments$;
