create or replace view intake_safe_harbor.questions with (security_barrier = true) as
with forms as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown and kind in ('form')
), known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_answer_groups where is_shown and kind in ('question')
)
select q.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', q.team_id, q.form_id) as form_id, q.form,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'question', q.team_id, q.question_id) as question_id,
  q.position, q.question_text, q.question_type, q.concept, q.is_asked
from intake_analytics.questions q
cross join intake_ops.analytics_key k
where case
  when (select items from forms) ? intake_ops.group_item(q.team_id, 'form', null, null, q.form_id)::text
  then (select items from known) ? intake_ops.group_item(q.team_id, 'question', q.form_id, q.question_id, q.question_id)::text
end;

comment on view intake_safe_harbor.questions is 'The questions that at least eleven patients were asked.';
comment on column intake_safe_harbor.questions.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.questions.form_id is 'Code of the form.';
comment on column intake_safe_harbor.questions.form is 'Name of the form.';
comment on column intake_safe_harbor.questions.question_id is 'Code of the question.';
comment on column intake_safe_harbor.questions.position is 'Its first place in the form, from 1.';
comment on column intake_safe_harbor.questions.question_text is 'Its text.';
comment on column intake_safe_harbor.questions.question_type is 'Its type, as the service names it.';
comment on column intake_safe_harbor.questions.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_safe_harbor.questions.is_asked is 'False for a question that the form no longer has.';
