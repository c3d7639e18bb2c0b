-- Patients (specification, section 2.1) with their emergency contact, tags and custom fields.

create table intake.patients (
  team_id smallint not null,
  id text not null,
  external_id text,
  first_name text,
  last_name text,
  email text,
  phone_number text,
  date_birth date,
  sex_at_birth text,
  provider text,
  address text,
  address2 text,
  city text,
  state text,
  zipcode text,
  created_at timestamptz,
  updated_at timestamptz,
  _version timestamptz not null,
  _deleted_at timestamptz,
  _origin text not null,
  _loaded_at timestamptz not null default now(),
  _hash bytea,
  _extra jsonb,
  _problems jsonb,
  primary key (team_id, id)
);
comment on table intake.patients is 'One row a patient of a team. Identified health data.';
comment on column intake.patients.team_id is 'The team (intake.teams).';
comment on column intake.patients.id is 'The service''s id of the patient.';
comment on column intake.patients.external_id is 'The team''s own identifier of the patient.';
comment on column intake.patients.first_name is 'First name.';
comment on column intake.patients.last_name is 'Last name.';
comment on column intake.patients.email is 'E-mail address.';
comment on column intake.patients.phone_number is 'Phone number, as the service holds it.';
comment on column intake.patients.date_birth is 'Date of birth.';
comment on column intake.patients.sex_at_birth is 'Sex at birth, a label.';
comment on column intake.patients.provider is 'Identifier of the provider.';
comment on column intake.patients.address is 'Street address.';
comment on column intake.patients.address2 is 'Second line of the address.';
comment on column intake.patients.city is 'City.';
comment on column intake.patients.state is 'State.';
comment on column intake.patients.zipcode is 'Postal code, as text.';
comment on column intake.patients.created_at is 'When the service created the record.';
comment on column intake.patients.updated_at is 'When the service last changed the record.';
comment on column intake.patients._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.patients._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.patients._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.patients._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.patients._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.patients._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.patients._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.patient_emergency_contacts (
  team_id smallint not null,
  patient_id text not null,
  first_name text,
  last_name text,
  phone_number text,
  relationship text,
  address text,
  address2 text,
  city text,
  state text,
  zipcode text,
  primary key (team_id, patient_id)
);
comment on table intake.patient_emergency_contacts is 'The emergency contact of a patient: none or one.';
comment on column intake.patient_emergency_contacts.team_id is 'The team (intake.teams).';
comment on column intake.patient_emergency_contacts.patient_id is 'The patient.';
comment on column intake.patient_emergency_contacts.first_name is 'First name of the contact.';
comment on column intake.patient_emergency_contacts.last_name is 'Last name of the contact.';
comment on column intake.patient_emergency_contacts.phone_number is 'Phone number of the contact.';
comment on column intake.patient_emergency_contacts.relationship is 'Relationship to the patient.';
comment on column intake.patient_emergency_contacts.address is 'Street address.';
comment on column intake.patient_emergency_contacts.address2 is 'Second line of the address.';
comment on column intake.patient_emergency_contacts.city is 'City.';
comment on column intake.patient_emergency_contacts.state is 'State.';
comment on column intake.patient_emergency_contacts.zipcode is 'Postal code, as text.';

create table intake.patient_tags (
  team_id smallint not null,
  patient_id text not null,
  position int not null,
  name text,
  color text,
  primary key (team_id, patient_id, position)
);
comment on table intake.patient_tags is 'Tags of a patient; the same name may stand twice.';
comment on column intake.patient_tags.team_id is 'The team (intake.teams).';
comment on column intake.patient_tags.patient_id is 'The patient.';
comment on column intake.patient_tags.position is 'Place in the payload, from 1.';
comment on column intake.patient_tags.name is 'Name of the tag.';
comment on column intake.patient_tags.color is 'Colour of the tag, #rrggbb.';

create table intake.patient_custom_fields (
  team_id smallint not null,
  patient_id text not null,
  key text not null,
  value text,
  primary key (team_id, patient_id, key)
);
comment on table intake.patient_custom_fields is 'Key and value pairs that the team defines.';
comment on column intake.patient_custom_fields.team_id is 'The team (intake.teams).';
comment on column intake.patient_custom_fields.patient_id is 'The patient.';
comment on column intake.patient_custom_fields.key is 'Name of the custom field.';
comment on column intake.patient_custom_fields.value is 'Value; one that is not text stands as its JSON text.';
