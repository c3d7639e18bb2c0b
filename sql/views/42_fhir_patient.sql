-- The service has the sex at birth only: gender has it too, in FHIR's words. Custom fields are left out.
create or replace view intake_fhir.patient with (security_barrier = true) as
select p.team_id, intake_fhir.as_id(p.id) as id, p.id as patient_id, coalesce(p.updated_at, p._version) as last_updated,
  jsonb_strip_nulls(jsonb_build_object(
    'resourceType', 'Patient',
    'id', intake_fhir.as_id(p.id),
    'meta', jsonb_build_object(
      'lastUpdated', intake_fhir.as_time(coalesce(p.updated_at, p._version)),
      'tag', (
        select jsonb_agg(jsonb_build_object('display', intake_fhir.as_string(t.name)) order by t.position)
        from intake.patient_tags t
        where t.team_id = p.team_id and t.patient_id = p.id and intake_fhir.as_string(t.name) is not null
      )),
    'extension', case when sex.code is not null then jsonb_build_array(jsonb_build_object(
      'url', 'http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex', 'valueCode', sex.code)) end,
    'identifier', case when intake_fhir.as_string(p.external_id) is not null
      then jsonb_build_array(jsonb_build_object('value', intake_fhir.as_string(p.external_id))) end,
    'name', intake_fhir.name(p.first_name, p.last_name),
    'telecom', intake_fhir.telecom(p.phone_number, p.email),
    'gender', sex.gender,
    'birthDate', intake_fhir.as_date(p.date_birth),
    'address', intake_fhir.address(p.address, p.address2, p.city, p.state, p.zipcode),
    'contact', (
      select jsonb_agg(person.contact)
      from intake.patient_emergency_contacts c
      cross join lateral (
        select jsonb_strip_nulls(jsonb_build_object(
          'relationship', case when intake_fhir.as_string(c.relationship) is not null
            then jsonb_build_array(jsonb_build_object('text', intake_fhir.as_string(c.relationship))) end,
          'name', intake_fhir.name(c.first_name, c.last_name) -> 0,
          'telecom', intake_fhir.telecom(c.phone_number, null),
          'address', intake_fhir.address(c.address, c.address2, c.city, c.state, c.zipcode) -> 0
        )) as contact
      ) person
      -- A contact needs one of these (pat-1).
      where c.team_id = p.team_id and c.patient_id = p.id and person.contact ?| array['name', 'telecom', 'address']
    ),
    'generalPractitioner', case when intake_fhir.as_string(p.provider) is not null
      then jsonb_build_array(jsonb_build_object('display', intake_fhir.as_string(p.provider))) end
  )) as resource
from intake.patients p
left join (
  values
    ('female', 'female', 'F'), ('f', 'female', 'F'), ('male', 'male', 'M'), ('m', 'male', 'M'), ('intersex', 'other', null),
    ('i', 'other', null), ('other', 'other', null), ('o', 'other', null), ('x', 'other', null),
    ('unknown', 'unknown', 'UNK'), ('u', 'unknown', 'UNK'), ('undisclosed', 'unknown', 'UNK'),
    ('not specified', 'unknown', 'UNK'), ('prefer not to say', 'unknown', 'UNK')
) as sex (written, gender, code) on sex.written = lower(trim(p.sex_at_birth))
where p._deleted_at is null
  and p.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_fhir.patient is 'Each patient as a FHIR R4 Patient.';
comment on column intake_fhir.patient.team_id is 'The team (intake.teams).';
comment on column intake_fhir.patient.id is 'Id of the resource: the service''s, or its SHA-256 if FHIR does not permit it.';
comment on column intake_fhir.patient.patient_id is 'The service''s id (intake.patients).';
comment on column intake_fhir.patient.last_updated is 'When the record was last updated.';
comment on column intake_fhir.patient.resource is 'The resource.';
