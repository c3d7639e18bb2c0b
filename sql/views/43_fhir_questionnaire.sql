-- Items are put into their blocks from the inside out, three levels deep.
create or replace view intake_fhir.questionnaire with (security_barrier = true) as
select f.team_id, intake_fhir.as_id(f.id) as id, f.id as form_id, coalesce(f.updated_at, f._version) as last_updated,
  jsonb_strip_nulls(jsonb_build_object(
    'resourceType', 'Questionnaire',
    'id', intake_fhir.as_id(f.id),
    'meta', jsonb_build_object('lastUpdated', intake_fhir.as_time(coalesce(f.updated_at, f._version))),
    'title', intake_fhir.as_string(f.name),
    'status', case f.enabled when true then 'active' when false then 'retired' else 'unknown' end,
    'subjectType', jsonb_build_array('Patient'),
    'date', intake_fhir.as_time(f.updated_at),
    'description', intake_fhir.as_string(f.text),
    'item', items.items
  )) as resource
from intake.forms f
cross join lateral (
  with own as (
    select q.position, q.block_position,
      jsonb_strip_nulls(jsonb_build_object(
        'extension', case when q.control is not null then jsonb_build_array(jsonb_build_object(
          'url', 'http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl',
          'valueCodeableConcept', jsonb_build_object('coding', jsonb_build_array(jsonb_build_object(
            'system', 'http://hl7.org/fhir/questionnaire-item-control', 'code', q.control)))
        )) end,
        'linkId', q.link_id, 'text', q.text, 'type', q.type, 'repeats', q.repeats,
        'answerOption', case when q.type not in ('group', 'display') then (
          select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
              'extension', case when c.points is not null then jsonb_build_array(jsonb_build_object(
                'url', 'http://hl7.org/fhir/StructureDefinition/ordinalValue', 'valueDecimal', c.points)) end
            )) || case
              when intake_fhir.as_code(c.code) is not null then jsonb_build_object('valueCoding', jsonb_strip_nulls(
                jsonb_build_object('code', c.code, 'display', intake_fhir.as_string(c.text))))
              when q.type = 'integer' and c.text ~ '^(0|-?[1-9][0-9]{0,8})$' then jsonb_build_object('valueInteger', c.text::int)
              else jsonb_build_object('valueString', intake_fhir.as_string(c.text))
            end order by c.position)
          from intake.question_choices c
          where c.team_id = q.team_id and c.form_id = q.form_id and c.question_position = q.position
            and coalesce(intake_fhir.as_code(c.code), intake_fhir.as_string(c.text)) is not null
        ) end,
        'item', case when q.of_rows is not null then (
          select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
            'linkId', concat(q.link_id, '.', line.key), 'text', intake_fhir.as_string(line.text), 'type', 'group', 'item', (
              select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                'linkId', concat(q.link_id, '.', line.key, '.', coalesce(cell.value ->> 'id', cell.value ->> 'text', cell.value #>> '{}')),
                'text', intake_fhir.as_string(coalesce(cell.value ->> 'text', cell.value #>> '{}')), 'type', 'string'
              )) order by cell.place)
              from jsonb_array_elements(q.of_columns) with ordinality as cell (value, place)
            ))) order by line.place)
          from (
            select place, coalesce(value ->> 'id', value ->> 'text', value #>> '{}') as key,
              coalesce(value ->> 'text', value #>> '{}') as text
            from jsonb_array_elements(q.of_rows) with ordinality as part (value, place)
          ) line
        ) end
      )) as item
    from intake_raw.fhir_questions q
    where q.team_id = f.team_id and q.form_id = f.id
  ), inner_parts as (
    select block_position, jsonb_agg(item order by position) as items from own group by block_position
  ), middle as (
    select own.position, own.block_position,
      own.item || case when parts.items is null then '{}' else jsonb_build_object('item', parts.items) end as item
    from own left join inner_parts parts on parts.block_position = own.position
  ), middle_parts as (
    select block_position, jsonb_agg(item order by position) as items from middle group by block_position
  )
  select jsonb_agg(
    own.item || case when parts.items is null then '{}' else jsonb_build_object('item', parts.items) end order by own.position
  ) as items
  from own left join middle_parts parts on parts.block_position = own.position
  where own.block_position is null
) items
where f._deleted_at is null
  and f.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_fhir.questionnaire is 'Each form as a FHIR R4 Questionnaire.';
comment on column intake_fhir.questionnaire.team_id is 'The team (intake.teams).';
comment on column intake_fhir.questionnaire.id is 'Id of the resource: the service''s, or its SHA-256 if FHIR does not permit it.';
comment on column intake_fhir.questionnaire.form_id is 'The service''s id (intake.forms).';
comment on column intake_fhir.questionnaire.last_updated is 'When the record was last updated.';
comment on column intake_fhir.questionnaire.resource is 'The resource.';
