-- What a wide view is of, for who may see that team. Everybody may read the definition of a view and ask the planner about it:
-- so that neither shows the ids of forms and exports of other teams, nor how many rows these have, views contain names only.
create or replace function intake_raw.subject_of(kind text, view_name text, login text)
  returns table (team_id smallint, subject_id text) language sql stable parallel safe rows 1
  security definer set search_path = pg_catalog, pg_temp as $$
  select v.team_id, v.subject_id
  from intake_raw.wide_views v
  where v.kind = subject_of.kind and v.view_name = subject_of.view_name and v.team_id = any (intake_ops.teams_of(subject_of.login))
$$;
comment on function intake_raw.subject_of(text, text, text) is 'The team and the form or export of a wide view; no row for a login that does not see the team.';

create or replace view intake.form_columns with (security_barrier = true) as
select v.team_id, v.subject_id as form_id, v.view_name, c.place, c.column_name, c.question_id, c.question_text,
  c.question_type, q.concept, c.first_seen_at
from intake_raw.wide_views v
join intake_raw.wide_columns c using (team_id, kind, subject_id)
left join intake_raw.question_concepts q
  on q.team_id = c.team_id and q.form_id = c.subject_id and q.question_id = c.question_id
where v.kind = 'form' and v.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake.form_columns is 'Maps the columns of the wide views form_… to questions.';
comment on column intake.form_columns.team_id is 'The team (intake.teams).';
comment on column intake.form_columns.form_id is 'The form.';
comment on column intake.form_columns.view_name is 'The wide view of the form.';
comment on column intake.form_columns.place is 'Place among the columns of questions, from 1.';
comment on column intake.form_columns.column_name is 'Name of the column; it does not change when the question is reworded.';
comment on column intake.form_columns.question_id is 'The question.';
comment on column intake.form_columns.question_text is 'Text of the question when the form last changed.';
comment on column intake.form_columns.question_type is 'Type of the question when the column was created.';
comment on column intake.form_columns.concept is 'What it asks, across versions and languages: classify set --concept.';
comment on column intake.form_columns.first_seen_at is 'When the column was created.';
