-- Every question of every form, and how much of its answers analysts see. Read by classify list.
create or replace view intake.questions with (security_barrier = true) as
select t.team_id, t.form_id, t.question_id, t.position, t.question_text, t.question_type, t.kind, c.concept,
  t.decided_by, t.shows, t.is_asked, t.waits
from intake_raw.question_terms t
left join intake_raw.question_concepts c using (team_id, form_id, question_id)
where t.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake.questions is 'Every question of every form, and how much of its answers analysts see.';
comment on column intake.questions.team_id is 'The team (intake.teams).';
comment on column intake.questions.form_id is 'The form.';
comment on column intake.questions.question_id is 'The question.';
comment on column intake.questions.position is 'First position of the question in the form.';
comment on column intake.questions.question_text is 'Its text.';
comment on column intake.questions.question_type is 'Its type, as the service names it.';
comment on column intake.questions.kind is 'choice, number, checkbox, date, text, matrix, file, signature, none (asks nothing) or other.';
comment on column intake.questions.concept is 'What it asks, across versions and languages: classify set --concept.';
comment on column intake.questions.decided_by is 'type or person (classify); null if nobody decided on this wording.';
comment on column intake.questions.shows is 'nothing; structured (choices of the form, numbers, yes and no); or everything (also texts, and the year of dates).';
comment on column intake.questions.is_asked is 'False for a question that the form no longer has; its answers stay.';
comment on column intake.questions.waits is 'True if the question was decided on, then reworded, and waits for a decision (classify).';
