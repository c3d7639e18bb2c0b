-- An answer is shown if the wording that it answers was decided on (intake_ops.shown_of). A choice is shown if its text is one
-- that the question offers or offered. Any other text is free text, also with the id of a choice (what someone wrote at
-- "Other"). Digits are matched as [0-9], because \d matches the digits of any script under an ICU collation.
create or replace view intake_analytics.answers with (security_barrier = true) as
select a.team_id, a.response_id, a.position, a.value_position,
  case when r.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.patient_id) end as patient,
  r.form_id, f.name as form, r.submitted_at,
  a.question_id, q.question_text, q.question_type, qc.concept,
  own.shows <> 'nothing' as is_shown,
  case
    when a.value_text <> '' then true
    when q.kind in ('choice', 'number', 'checkbox', 'date', 'text', 'none') then false
    when q.kind = 'signature' then exists (
      select from intake.response_signatures s
      where s.team_id = a.team_id and s.response_id = a.response_id and s.question_id = a.question_id
        and (s.has_image or s.signed_at is not null or s.signer_name <> '')
    )
    when q.kind = 'file' then exists (
      select from intake.response_files s
      where s.team_id = a.team_id and s.response_id = a.response_id and s.question_id = a.question_id
    )
    when q.kind = 'matrix' then exists (
      select from intake.response_matrix_cells s
      where s.team_id = a.team_id and s.response_id = a.response_id and s.question_id = a.question_id and s.value_text <> ''
    )
    else exists (
      select from intake.response_signatures s
      where s.team_id = a.team_id and s.response_id = a.response_id and s.question_id = a.question_id
        and (s.has_image or s.signed_at is not null or s.signer_name <> '')
    ) or exists (
      select from intake.response_files s
      where s.team_id = a.team_id and s.response_id = a.response_id and s.question_id = a.question_id
    ) or exists (
      select from intake.response_matrix_cells s
      where s.team_id = a.team_id and s.response_id = a.response_id and s.question_id = a.question_id and s.value_text <> ''
    )
  end as is_answered,
  case when own.shows <> 'nothing' and q.kind = 'choice' and a.value_text = any (q.choices) then a.value_text end as choice,
  case when (own.shows = 'everything' and q.kind <> 'date') or (own.shows = 'structured' and q.kind = 'number')
    then a.value_number end as value_number,
  case when own.shows = 'everything' or (own.shows = 'structured' and q.kind = 'checkbox') then a.value_boolean end as value_boolean,
  case when own.shows = 'everything' and dated.year > extract(year from (now() at time zone 'UTC')::date) - 90 then dated.year end as value_year,
  case when own.shows = 'everything' and q.kind <> 'date' and a.value_date is null then a.value_text end as value_text,
  coalesce(nullif(a.question_text, '') <> q.question_text, false) as is_reworded
from intake.response_answers a
join intake.responses r on r.team_id = a.team_id and r.id = a.response_id
cross join intake_ops.analytics_key k
left join intake.forms f on f.team_id = r.team_id and f.id = r.form_id
left join intake_raw.question_terms q on q.team_id = a.team_id and q.form_id = r.form_id and q.question_id = a.question_id
left join intake_raw.question_concepts qc on qc.team_id = a.team_id and qc.form_id = r.form_id and qc.question_id = a.question_id
left join intake_ops.classifications former
  on former.team_id = q.team_id and former.form_id = q.form_id and former.question_id = q.question_id
  and former.wording = case when a.question_text is distinct from q.question_text
    then intake_ops.wording(q.question_type, a.question_text) end
  and former.decided_by = 'person'
cross join lateral (
  select intake_ops.shown_of(q.shows, q.kind, q.question_text, q.is_reworded, a.question_text, former.shows) as shows
) own
cross join lateral (
  select coalesce(
    extract(year from a.value_date),
    case when q.kind = 'date' then substring(a.value_text from '^[0-9]{4}') end::numeric
  )::int as year
) dated
where a.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.answers is 'One row per value of an answer; values that may not be seen are null (see is_shown).';
comment on column intake_analytics.answers.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.answers.response_id is 'The response (intake_analytics.responses).';
comment on column intake_analytics.answers.position is 'Place of the answer in the response, from 1.';
comment on column intake_analytics.answers.value_position is 'Place of the value in the answer: several choices are several values.';
comment on column intake_analytics.answers.patient is 'Pseudonym of the patient (intake_analytics.patients).';
comment on column intake_analytics.answers.form_id is 'The form.';
comment on column intake_analytics.answers.form is 'Name of the form as it is now.';
comment on column intake_analytics.answers.submitted_at is 'When the response was submitted.';
comment on column intake_analytics.answers.question_id is 'The question.';
comment on column intake_analytics.answers.question_text is 'Text of the question as it is now; null for one that the form no longer has.';
comment on column intake_analytics.answers.question_type is 'Its type, as the service names it.';
comment on column intake_analytics.answers.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_analytics.answers.is_shown is 'Whether this answer may be seen: by the type of its question, or by classify; false for an answer to a wording that was not decided on.';
comment on column intake_analytics.answers.is_answered is 'Whether anything was answered, shown or not: a text, choice, file, signature or cell of a matrix.';
comment on column intake_analytics.answers.choice is 'The choice, if it is one that the form offers or offered.';
comment on column intake_analytics.answers.value_number is 'The answer as a number.';
comment on column intake_analytics.answers.value_boolean is 'The answer as yes or no.';
comment on column intake_analytics.answers.value_year is 'The year of a date, where classify shows the question; null if it is 90 years ago or longer.';
comment on column intake_analytics.answers.value_text is 'The answer as text, where classify shows the question.';
comment on column intake_analytics.answers.is_reworded is 'True if the response shows another text of the question than the form does now.';
