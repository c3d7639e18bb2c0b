create or replace view intake_analytics.choices with (security_barrier = true) as
select c.team_id, c.form_id, f.name as form, c.question_id, q.question_text, q.position as question_position, c.position,
  c.text as choice, qc.concept, c.code, c.points
from intake.question_choices c
join intake_raw.question_terms q on q.team_id = c.team_id and q.form_id = c.form_id and q.question_id = c.question_id
left join intake.forms f on f.team_id = c.team_id and f.id = c.form_id
left join intake_raw.question_concepts qc
  on qc.team_id = c.team_id and qc.form_id = c.form_id and qc.question_id = c.question_id
where c.text is not null and c.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.choices is 'One row per choice that a question offers, in the order of the form, also if nobody selected it.';
comment on column intake_analytics.choices.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.choices.form_id is 'The form.';
comment on column intake_analytics.choices.form is 'Name of the form.';
comment on column intake_analytics.choices.question_id is 'The question.';
comment on column intake_analytics.choices.question_text is 'Text of the question.';
comment on column intake_analytics.choices.question_position is 'First position of the question in the form.';
comment on column intake_analytics.choices.position is 'Place of the choice among those of the question, from 1.';
comment on column intake_analytics.choices.choice is 'The choice, as in intake_analytics.answers.';
comment on column intake_analytics.choices.concept is 'What the question asks, across versions and languages of a form.';
comment on column intake_analytics.choices.code is 'Its code in the FHIR Questionnaire that the form was imported from.';
comment on column intake_analytics.choices.points is 'What it counts in the score of its questionnaire, where the service shows it.';
