-- A linkId is unique in its questionnaire: that of the imported item, else the question's id, else that with the position. The
-- parts of a table are its members, or the rows that the service shows.
create or replace view intake_raw.fhir_questions as
with asked as (
  select q.*, lower(q.question_type) as kind,
    row_number() over (partition by q.team_id, q.form_id, q.question_id order by q.position) = 1 as is_first,
    count(*) over (partition by q.team_id, q.form_id, q.question_id) as same_id,
    count(*) over (partition by q.team_id, q.form_id, q.link_id) as same_link
  from intake.form_questions q
)
select d.team_id, d.form_id, d.position, d.question_id, d.is_first,
  intake_fhir.as_string(case
    when d.link_id <> '' and d.same_link = 1 then d.link_id
    when d.question_id is not null and d.same_id = 1 then d.question_id
    else concat_ws('.', d.question_id, d.position)
  end) as link_id,
  intake_fhir.as_string(d.text) as text,
  intake_fhir.item_type(d.question_type, d.question_subtype, parts.has_members or parts.of_rows is not null) as type,
  case when d.kind in ('multiple_choice', 'multi_select', 'multiple_select') or d.kind = 'repeated_block' and parts.has_members then true end as repeats,
  case
    when d.kind = 'matrix' and (parts.has_members or parts.of_rows is not null) then 'table'
    when d.question_subtype in ('drop-down', 'radio-button', 'check-box', 'slider', 'autocomplete', 'lookup', 'spinner',
      'text-box', 'help', 'flyover', 'page', 'list', 'table', 'htable', 'gtable', 'atable', 'header', 'footer') then d.question_subtype
  end as control,
  own.position as block_position,
  case when own.position is not null then d.block_id end as block_id,
  parts.of_rows, parts.of_columns
from asked d
cross join lateral (
  select
    case when d.block_id is not null then (
      select min(b.position) from intake.form_questions b
      where b.team_id = d.team_id and b.form_id = d.form_id and b.question_id = d.block_id and b.position <> d.position
        and lower(b.question_type) in ('matrix', 'repeated_block')
    ) end as position,
    case when d.kind = 'matrix' then (
      select coalesce(r.payload -> 'questions' -> (d.position - 1), jsonb_path_query_first(
        r.payload, 'lax $.**.questions[*] ? (@.id == $id)', jsonb_build_object('id', d.question_id)))
      from intake_raw.records r
      where r.team_id = d.team_id and r.stream = 'forms' and r.id = d.form_id
    ) end as payload
  offset 0
) own
cross join lateral (
  select
    d.is_first and d.kind in ('matrix', 'repeated_block') and exists (
      select from intake.form_questions m
      where m.team_id = d.team_id and m.form_id = d.form_id and m.block_id = d.question_id and m.position <> d.position
    ) as has_members
  offset 0
) found
cross join lateral (
  select found.has_members,
    case when not found.has_members and jsonb_typeof(own.payload -> 'rows') = 'array' then nullif(own.payload -> 'rows', '[]') end as of_rows,
    case when jsonb_typeof(own.payload -> 'columns') = 'array' then own.payload -> 'columns' else '[]' end as of_columns
) parts;

comment on view intake_raw.fhir_questions is 'Each question as an item of a FHIR Questionnaire.';
comment on column intake_raw.fhir_questions.team_id is 'The team (intake.teams).';
comment on column intake_raw.fhir_questions.form_id is 'The form.';
comment on column intake_raw.fhir_questions.position is 'Position of the question in the form.';
comment on column intake_raw.fhir_questions.question_id is 'The service''s id of the question.';
comment on column intake_raw.fhir_questions.is_first is 'False for a further question with the same id: answers belong to the first.';
comment on column intake_raw.fhir_questions.link_id is 'linkId of the item, unique in the form.';
comment on column intake_raw.fhir_questions.text is 'Its text.';
comment on column intake_raw.fhir_questions.type is 'Its type in FHIR.';
comment on column intake_raw.fhir_questions.repeats is 'True if it may have several answers.';
comment on column intake_raw.fhir_questions.control is 'Its control (questionnaire-itemControl).';
comment on column intake_raw.fhir_questions.block_position is 'Position of the block or table whose member it is.';
comment on column intake_raw.fhir_questions.block_id is 'question_id of that block or table.';
comment on column intake_raw.fhir_questions.of_rows is 'The rows of a matrix without members, where the service shows them.';
comment on column intake_raw.fhir_questions.of_columns is 'Its columns.';
