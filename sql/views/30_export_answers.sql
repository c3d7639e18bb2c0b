-- Cells of exports follow the rules of answers: a column is shown if it is matched to a question that is shown, and its title
-- is the wording that was decided on. A tick is
-- "confirmed" or blank in the flat exports of v2.1, True or False in others; several answers are joined in one cell.
-- A row repeats a response; which one follows from its client and the time of submission, as exactly as both say it. Files may
-- call a patient by another id, or by none; an id of a patient is never taken for the external id of another.
create or replace view intake_analytics.export_answers with (security_barrier = true) as
select c.team_id, c.export_id, e.form_id, f.name as form, c.row_number, c.position,
  case when r.client_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.client_id) end as patient,
  r.sent_at, r.completed_at, r.archived as is_archived,
  h.question_id, q.question_text, q.question_type, qc.concept,
  own.shows <> 'nothing' as is_shown,
  case when own.shows <> 'nothing' and q.kind = 'choice'
    and (c.value = any (q.choices) or string_to_array(replace(c.value, '; ', ', '), ', ') <@ q.choices) then c.value end as choice,
  case when ((own.shows = 'everything' and q.kind <> 'date') or (own.shows = 'structured' and q.kind = 'number'))
    and c.value ~ '^\s*[-+]?([0-9]{1,60}\.?[0-9]{0,60}|\.[0-9]{1,60})([eE][-+]?[0-9]{1,2})?\s*$' then c.value::numeric end as value_number,
  case when own.shows = 'everything' or (own.shows = 'structured' and q.kind = 'checkbox') then
    case lower(trim(c.value)) when 'confirmed' then true when 'true' then true when 'yes' then true when 'false' then false when 'no' then false end
  end as value_boolean,
  case when own.shows = 'everything' and read.year::int > extract(year from (now() at time zone 'UTC')::date) - 90 then read.year::int end as value_year,
  case when own.shows = 'everything' and q.kind <> 'date' and read.year is null then c.value end as value_text,
  answered.response_id
from intake.export_rows r
join intake.exports e on e.team_id = r.team_id and e.id = r.export_id
left join lateral (
  -- Once per row, before its cells are joined; not at all if nobody asks for the response.
  select min(found.id) as response_id
  from (
    select exists (select from intake.patients own where own.team_id = r.team_id and own.id = r.client_id) as is_named
  ) other
  cross join lateral (
    select x.id
    from intake.responses x
    left join intake.patients p on p.team_id = x.team_id and p.id = x.patient_id
    where x.team_id = r.team_id and x.form_id = e.form_id and x.submitted_at = r.completed_at
      and x.is_skipped is not true and x._deleted_at is null
      and (x.patient_id = r.client_id or not other.is_named and (p.external_id = r.client_id or (
        r.email <> '' and lower(p.email) = lower(r.email) and lower(p.first_name) = lower(r.first_name)
          and lower(p.last_name) = lower(r.last_name)
      )))
    union all
    select x.id
    from intake.responses x
    where r.completed_at is null and x.team_id = r.team_id and x.patient_id = r.client_id and x.form_id = e.form_id
      and x.submitted_at is null and x.is_skipped is not true and x._deleted_at is null
  ) found
  having count(*) = 1
) answered on true
join intake.export_cells c on c.team_id = r.team_id and c.export_id = r.export_id and c.row_number = r.row_number
cross join intake_ops.analytics_key k
left join intake.export_columns h on h.team_id = c.team_id and h.export_id = c.export_id and h.position = c.position
left join intake.forms f on f.team_id = e.team_id and f.id = e.form_id
left join intake_raw.question_terms q on q.team_id = c.team_id and q.form_id = e.form_id and q.question_id = h.question_id
left join intake_raw.question_concepts qc on qc.team_id = c.team_id and qc.form_id = e.form_id and qc.question_id = h.question_id
cross join lateral (
  select case when q.kind = 'matrix' and starts_with(h.title, q.question_text || ' - ') then q.question_text else h.title end as text
) asked
left join intake_ops.classifications former
  on former.team_id = q.team_id and former.form_id = q.form_id and former.question_id = q.question_id
  and former.wording = case when asked.text is distinct from q.question_text
    then intake_ops.wording(q.question_type, asked.text) end
  and former.decided_by = 'person'
cross join lateral (
  select intake_ops.shown_of(q.shows, q.kind, q.question_text, q.is_reworded, asked.text, former.shows) as shows
) own
cross join lateral (select substring(c.value from '^\s*([0-9]{4})-[0-9]{2}-[0-9]{2}') as year) read
where c.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.export_answers is 'One row per cell of an export''s file; values that may not be seen are null (see is_shown).';
comment on column intake_analytics.export_answers.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.export_answers.export_id is 'The export.';
comment on column intake_analytics.export_answers.form_id is 'The form whose answers it contains.';
comment on column intake_analytics.export_answers.form is 'Name of the form.';
comment on column intake_analytics.export_answers.row_number is 'Place of the row in the file, from 1.';
comment on column intake_analytics.export_answers.position is 'Place of the column in the file; the first after the leading ones is 8.';
comment on column intake_analytics.export_answers.patient is 'Pseudonym of the client id of the row: that of the patient (intake_analytics.patients), where the file has the service''s ids; else the response leads to the patient.';
comment on column intake_analytics.export_answers.sent_at is 'When the form was sent.';
comment on column intake_analytics.export_answers.completed_at is 'When it was completed.';
comment on column intake_analytics.export_answers.is_archived is 'True when the answers are archived.';
comment on column intake_analytics.export_answers.question_id is 'The question that the column was matched to; null for none.';
comment on column intake_analytics.export_answers.question_text is 'Text of the question.';
comment on column intake_analytics.export_answers.question_type is 'Its type, as the service names it.';
comment on column intake_analytics.export_answers.concept is 'What it asks, across versions and languages of a form.';
comment on column intake_analytics.export_answers.is_shown is 'Whether this cell may be seen: by the type of its question, or by classify.';
comment on column intake_analytics.export_answers.choice is 'The choice, or several joined by commas, where the form offers them or did.';
comment on column intake_analytics.export_answers.value_number is 'The cell as a number.';
comment on column intake_analytics.export_answers.value_boolean is 'The cell as yes or no; a box that is not ticked has a blank cell in the exports of v2.1, and no row here.';
comment on column intake_analytics.export_answers.value_year is 'The year of a date, where classify shows the question; null if it is 90 years ago or longer.';
comment on column intake_analytics.export_answers.value_text is 'The cell as text, where classify shows the question.';
comment on column intake_analytics.export_answers.response_id is 'The response that the row contains (intake_analytics.responses): the only one of this patient to the form that was submitted when the row was completed; null if there is none or several.';
