-- Answers become items, the items of a row of a matrix one item, and those of a block or matrix one item for each repetition.
create or replace view intake_fhir.questionnaire_response with (security_barrier = true) as
select r.team_id, intake_fhir.as_id(r.id) as id, r.id as response_id, r.patient_id, r.form_id,
  coalesce(r.submitted_at, r.updated_at) as authored, coalesce(r.updated_at, r._version) as last_updated,
  jsonb_strip_nulls(jsonb_build_object(
    'resourceType', 'QuestionnaireResponse',
    'id', intake_fhir.as_id(r.id),
    'meta', jsonb_build_object('lastUpdated', intake_fhir.as_time(coalesce(r.updated_at, r._version))),
    'questionnaire', 'Questionnaire/' || intake_fhir.as_id(r.form_id),
    'status', case when r.is_skipped then 'stopped' when r.is_submitted then 'completed' else 'in-progress' end,
    'subject', case when r.patient_id is not null
      then jsonb_build_object('reference', 'Patient/' || intake_fhir.as_id(r.patient_id)) end,
    'authored', intake_fhir.as_time(coalesce(r.submitted_at, r.updated_at)),
    'item', whole.items
  )) as resource
from intake.responses r
cross join lateral (
  with items as (
    select group_link_id, instance, row_link_id, link_id, min(group_text) as group_text,
      min(row_text) as row_text, min(item_order) as item_order, min(position) as position,
      jsonb_strip_nulls(jsonb_build_object(
        'linkId', link_id, 'text', (array_agg(text order by position))[1],
        'answer', jsonb_agg(value order by position, value_position) filter (where value is not null)
      )) as item
    from intake_raw.fhir_answers
    where team_id = r.team_id and response_id = r.id
    group by group_link_id, instance, row_link_id, link_id
  ), lines as (
    select group_link_id, instance, coalesce(row_link_id, link_id) as link_id,
      min(group_text) as group_text, min(item_order) as item_order, min(position) as position,
      case when row_link_id is null then (array_agg(item))[1]
        else jsonb_strip_nulls(jsonb_build_object(
          'linkId', row_link_id, 'text', min(row_text), 'item', jsonb_agg(item order by position)))
      end as item
    from items
    group by group_link_id, instance, row_link_id, coalesce(row_link_id, link_id)
  ), blocks as (
    select min(item_order) as item_order, min(position) as position,
      case when group_link_id is null then (array_agg(item))[1]
        else jsonb_strip_nulls(jsonb_build_object(
          'linkId', group_link_id, 'text', min(group_text), 'item', jsonb_agg(item order by item_order, position)))
      end as item
    from lines
    group by group_link_id, instance, case when group_link_id is null then link_id end
  )
  select jsonb_agg(item order by item_order, position) as items from blocks
) whole
where r._deleted_at is null
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_fhir.questionnaire_response is 'Each response as a FHIR R4 QuestionnaireResponse.';
comment on column intake_fhir.questionnaire_response.team_id is 'The team (intake.teams).';
comment on column intake_fhir.questionnaire_response.id is 'Id of the resource: the service''s, or its SHA-256 if FHIR does not permit it.';
comment on column intake_fhir.questionnaire_response.response_id is 'The service''s id (intake.responses).';
comment on column intake_fhir.questionnaire_response.patient_id is 'The patient (intake.patients).';
comment on column intake_fhir.questionnaire_response.form_id is 'The form (intake.forms).';
comment on column intake_fhir.questionnaire_response.authored is 'When it was submitted, else last changed.';
comment on column intake_fhir.questionnaire_response.last_updated is 'When the record was last updated.';
comment on column intake_fhir.questionnaire_response.resource is 'The resource.';
