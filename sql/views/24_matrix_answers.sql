-- A cell may contain anything: only classify can show a matrix, and only for the wording that was decided on.
create or replace view intake_analytics.matrix_answers with (security_barrier = true) as
select c.team_id, c.response_id, c.position,
  case when r.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.patient_id) end as patient,
  r.form_id, f.name as form, r.submitted_at,
  c.question_id, q.question_text, qc.concept,
  own.shows = 'everything' as is_shown,
  case when own.shows = 'everything' then coalesce(c.row_text, c.row_id) end as row_text,
  case when own.shows = 'everything' then coalesce(c.column_text, c.column_id) end as column_text,
  case when own.shows = 'everything' and read.as_date is null then c.value_text end as value_text,
  case when own.shows = 'everything' and left(read.as_date, 4)::int > extract(year from (now() at time zone 'UTC')::date) - 90
    then left(read.as_date, 4)::int end as value_year
from intake.response_matrix_cells c
join intake.responses r on r.team_id = c.team_id and r.id = c.response_id
cross join intake_ops.analytics_key k
left join intake.forms f on f.team_id = r.team_id and f.id = r.form_id
left join intake_raw.question_terms q on q.team_id = c.team_id and q.form_id = r.form_id and q.question_id = c.question_id
left join intake_raw.question_concepts qc on qc.team_id = c.team_id and qc.form_id = r.form_id and qc.question_id = c.question_id
left join intake_ops.classifications former
  on former.team_id = q.team_id and former.form_id = q.form_id and former.question_id = q.question_id
  and former.wording = case when c.question_text is distinct from q.question_text
    then intake_ops.wording(q.question_type, c.question_text) end
  and former.decided_by = 'person'
cross join lateral (
  select intake_ops.shown_of(q.shows, q.kind, q.question_text, q.is_reworded, c.question_text, former.shows) as shows
) own
cross join lateral (select substring(c.value_text from '^\s*([0-9]{4}-[0-9]{2}-[0-9]{2})') as as_date) read
where c.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.matrix_answers is 'One row per answered cell of a matrix; null where classify does not show the matrix.';
comment on column intake_analytics.matrix_answers.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.matrix_answers.response_id is 'The response (intake_analytics.responses).';
comment on column intake_analytics.matrix_answers.position is 'Place of the cell in the response, from 1.';
comment on column intake_analytics.matrix_answers.patient is 'Pseudonym of the patient (intake_analytics.patients).';
comment on column intake_analytics.matrix_answers.form_id is 'The form.';
comment on column intake_analytics.matrix_answers.form is 'Name of the form as it is now.';
comment on column intake_analytics.matrix_answers.submitted_at is 'When the response was submitted.';
comment on column intake_analytics.matrix_answers.question_id is 'The question whose matrix it is.';
comment on column intake_analytics.matrix_answers.question_text is 'Text of the question as it is now.';
comment on column intake_analytics.matrix_answers.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_analytics.matrix_answers.is_shown is 'Whether classify shows the matrix in the wording that this response answers.';
comment on column intake_analytics.matrix_answers.row_text is 'Heading of the row.';
comment on column intake_analytics.matrix_answers.column_text is 'Heading of the column.';
comment on column intake_analytics.matrix_answers.value_text is 'Text of the cell; null for a date.';
comment on column intake_analytics.matrix_answers.value_year is 'The year of a date; null if it is 90 years ago or longer.';
