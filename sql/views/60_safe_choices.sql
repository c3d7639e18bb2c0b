create or replace view intake_safe_harbor.choices with (security_barrier = true) as
with terms as materialized (
  select team_id, form_id, question_id, shows, is_age, is_year, is_decided from intake_raw.safe_terms
)
select q.team_id, q.form_id, q.form, q.question_id, q.question_text, q.position as question_position, c.position, c.choice, q.concept
from (
  select c.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', c.team_id, c.form_id) as form_id,
    intake_ops.research_code(k.inner_pad, k.outer_pad, 'question', c.team_id, c.question_id) as question_id, c.position,
    case when t.shows <> 'hidden' then intake_raw.safe_choice(c.choice, t.is_age, t.is_year, t.is_decided) end as choice
  from intake_analytics.choices c
  join terms t using (team_id, form_id, question_id)
  cross join intake_ops.analytics_key k
) c
join intake_safe_harbor.questions q using (team_id, form_id, question_id)
where c.choice is not null;

comment on view intake_safe_harbor.choices is 'One row per choice that a question offers, in the order of the form, also if nobody selected it.';
comment on column intake_safe_harbor.choices.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.choices.form_id is 'Code of the form.';
comment on column intake_safe_harbor.choices.form is 'Name of the form.';
comment on column intake_safe_harbor.choices.question_id is 'Code of the question.';
comment on column intake_safe_harbor.choices.question_text is 'Text of the question.';
comment on column intake_safe_harbor.choices.question_position is 'First position of the question in the form.';
comment on column intake_safe_harbor.choices.position is 'Place of the choice among those of the question, from 1.';
comment on column intake_safe_harbor.choices.choice is 'The choice, as in intake_safe_harbor.answers.';
comment on column intake_safe_harbor.choices.concept is 'What the question asks, across versions and languages of a form.';
