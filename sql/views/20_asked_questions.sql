create or replace view intake_analytics.questions with (security_barrier = true) as
select q.team_id, q.form_id, f.name as form, q.question_id, q.position, q.question_text, q.question_type, c.concept,
  q.shows <> 'nothing' as is_shown, q.is_asked, q.waits, asked.link_id, asked.page
from intake_raw.question_terms q
left join intake.form_questions asked
  on q.is_asked and asked.team_id = q.team_id and asked.form_id = q.form_id and asked.position = q.position
left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
left join intake_raw.question_concepts c
  on c.team_id = q.team_id and c.form_id = q.form_id and c.question_id = q.question_id
where q.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.questions is 'One row per question of a form, as it is asked now.';
comment on column intake_analytics.questions.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.questions.form_id is 'The form.';
comment on column intake_analytics.questions.form is 'Name of the form.';
comment on column intake_analytics.questions.question_id is 'The question.';
comment on column intake_analytics.questions.position is 'Its first place in the form, from 1.';
comment on column intake_analytics.questions.question_text is 'Its text.';
comment on column intake_analytics.questions.question_type is 'Its type, as the service names it.';
comment on column intake_analytics.questions.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_analytics.questions.is_shown is 'Whether answers to it may be seen: by its type, or by classify.';
comment on column intake_analytics.questions.is_asked is 'False for a question that the form no longer has; its answers stay.';
comment on column intake_analytics.questions.waits is 'True if the question was reworded and waits for a decision (classify): until then analysts see at most its choices.';
comment on column intake_analytics.questions.link_id is 'linkId of the item in the FHIR Questionnaire that the form was imported from; null for other forms.';
comment on column intake_analytics.questions.page is 'Page of the form that it is on, from 1, where the service shows it.';
