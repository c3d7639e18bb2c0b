-- One row for each answer, in the places of the items of a QuestionnaireResponse: in a block (with the repetition), in a row of
-- a matrix, or in neither. The item of a question without an answer has one row without a value.
create or replace view intake_raw.fhir_answers as
with forms as materialized (
  -- A choice without a code is a text.
  select q.team_id, q.form_id, jsonb_object_agg(q.question_id, jsonb_build_object(
    'position', q.position, 'link_id', q.link_id, 'text', q.text, 'type', q.type, 'repeats', q.repeats, 'block_id', q.block_id,
    'codes', (
      select jsonb_object_agg(found.key, found.answer order by c.position desc)
      from intake.question_choices c
      cross join lateral (
        select unnest(array[c.text, c.choice_id || ':' || c.text]) as key, jsonb_build_object('valueCoding',
          jsonb_strip_nulls(jsonb_build_object('code', c.code, 'display', intake_fhir.as_string(c.text)))) as answer
      ) found
      where c.team_id = q.team_id and c.form_id = q.form_id and c.question_position = q.position
        and intake_fhir.as_code(c.code) is not null and found.key is not null
    )
  )) as questions
  from intake_raw.fhir_questions q
  where q.is_first and q.question_id is not null
  group by q.team_id, q.form_id
), given as (
  select a.team_id, a.response_id, a.question_id, a.question_text, a.position, a.value_position, a.choice_id,
    a.value_text, a.value_number, a.value_boolean, a.value_date, null::jsonb as value,
    null::text as row_key, null::text as row_text, null::text as column_key, null::text as column_text
  from intake.response_answers a
  union all
  select team_id, response_id, question_id, null, position, 100000, null, null, null, null, null,
    nullif(jsonb_build_object('valueAttachment', jsonb_strip_nulls(jsonb_build_object(
      'contentType', intake_fhir.as_code(content_type), 'url', case when url ~ '^[^[:space:]]+$' then url end,
      'size', case when size_bytes between 0 and 2147483647 then size_bytes end, 'title', intake_fhir.as_string(name)
    ))), '{"valueAttachment": {}}'), null, null, null, null
  from intake.response_files
  union all
  select team_id, response_id, question_id, null, position, 200000, null, null, null, null, null,
    case
      when intake_fhir.as_string(signer_name) is not null
        then jsonb_build_object('valueString', intake_fhir.as_string(signer_name))
      when has_image or signed_at is not null then jsonb_build_object('valueString', 'signed')
    end, null, null, null, null
  from intake.response_signatures
  union all
  select team_id, response_id, question_id, question_text, position, 300000, null, null, null, null, null,
    jsonb_build_object('valueString', intake_fhir.as_string(value_text)),
    coalesce(row_id, row_text, ''), row_text, coalesce(column_id, column_text, ''), column_text
  from intake.response_matrix_cells
  where intake_fhir.as_string(value_text) is not null
)
select g.team_id, g.response_id, r.patient_id, r.form_id,
  coalesce(r.submitted_at, r.updated_at) as authored,
  coalesce((q.entry ->> 'position')::int, 1000000) as item_order, g.position, g.value_position,
  case when g.row_key is null then q.block ->> 'link_id' else own.link_id end as group_link_id,
  case when g.row_key is null then q.block ->> 'text' else own.text end as group_text,
  case when g.row_key is null and q.block ? 'repeats' and (q.block ->> 'repeats')::boolean then (
    select count(distinct before.position)::int from intake.response_answers before
    where before.team_id = g.team_id and before.response_id = g.response_id and before.question_id = g.question_id
      and before.position <= g.position
  ) else 1 end as instance,
  case when g.row_key is not null then concat(own.link_id, '.', g.row_key) end as row_link_id,
  intake_fhir.as_string(g.row_text) as row_text,
  case when g.row_key is null then own.link_id else concat(own.link_id, '.', g.row_key, '.', g.column_key) end as link_id,
  case when g.row_key is null then own.text else intake_fhir.as_string(g.column_text) end as text,
  coalesce(g.value, intake_fhir.answer(q.entry ->> 'type',
    coalesce(q.entry -> 'codes' -> (g.choice_id || ':' || g.value_text), q.entry -> 'codes' -> g.value_text),
    g.value_text, g.value_number, g.value_boolean, g.value_date)) as value
from intake.responses r
join given g on g.team_id = r.team_id and g.response_id = r.id
left join forms on forms.team_id = r.team_id and forms.form_id = r.form_id
cross join lateral (
  select asked.entry, forms.questions -> (asked.entry ->> 'block_id') as block
  from (select forms.questions -> g.question_id as entry) asked
) q
cross join lateral (
  select coalesce(q.entry ->> 'link_id', intake_fhir.as_string(g.question_id), 'answer-' || g.position) as link_id,
    coalesce(intake_fhir.as_string(g.question_text), q.entry ->> 'text') as text
) own
where r._deleted_at is null
  and (g.value_text is not null or g.value is not null or q.entry ->> 'type' is distinct from 'group');

comment on view intake_raw.fhir_answers is 'Each answer as one of a FHIR QuestionnaireResponse, with the place of its item.';
comment on column intake_raw.fhir_answers.team_id is 'The team (intake.teams).';
comment on column intake_raw.fhir_answers.response_id is 'The response.';
comment on column intake_raw.fhir_answers.patient_id is 'The patient.';
comment on column intake_raw.fhir_answers.form_id is 'The form.';
comment on column intake_raw.fhir_answers.authored is 'When the response was submitted, else last changed.';
comment on column intake_raw.fhir_answers.item_order is 'Position of the question in the form; questions that it no longer has come last.';
comment on column intake_raw.fhir_answers.position is 'Position of the answer, file, signature or cell in the response.';
comment on column intake_raw.fhir_answers.value_position is 'Position of the value in the answer.';
comment on column intake_raw.fhir_answers.group_link_id is 'linkId of the block or matrix that the item is in; null for none.';
comment on column intake_raw.fhir_answers.group_text is 'Its text.';
comment on column intake_raw.fhir_answers.instance is 'Which repetition of the block, from 1.';
comment on column intake_raw.fhir_answers.row_link_id is 'linkId of the row of the matrix, if it is a cell of one.';
comment on column intake_raw.fhir_answers.row_text is 'Text of that row.';
comment on column intake_raw.fhir_answers.link_id is 'linkId of the item.';
comment on column intake_raw.fhir_answers.text is 'Text of the question as the response shows it, else as the form does.';
comment on column intake_raw.fhir_answers.value is 'The answer with its value[x]; null if there is none.';
