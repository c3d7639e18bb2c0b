-- Messages that ask patients to fill in something (specification, section 2.2).

create table intake.messages (
  team_id smallint not null,
  id text not null,
  patient_id text,
  form_id text,
  packet_id text,
  document_id text,
  message_type text,
  preferred_delivery_method text,
  target_email text,
  target_phone_number text,
  status text,
  content text,
  scheduled_at timestamptz,
  sent_at timestamptz,
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
create index messages_of_patient on intake.messages (team_id, patient_id);
comment on table intake.messages is 'One row a message to a patient. Identified health data.';
comment on column intake.messages.team_id is 'The team (intake.teams).';
comment on column intake.messages.id is 'The service''s id of the message.';
comment on column intake.messages.patient_id is 'The patient it is for.';
comment on column intake.messages.form_id is 'The form it refers to.';
comment on column intake.messages.packet_id is 'The packet it refers to.';
comment on column intake.messages.document_id is 'The document it refers to.';
comment on column intake.messages.message_type is 'Type, for example form_response_request.';
comment on column intake.messages.preferred_delivery_method is 'email or sms.';
comment on column intake.messages.target_email is 'E-mail address of the recipient.';
comment on column intake.messages.target_phone_number is 'Phone number of the recipient of an SMS.';
comment on column intake.messages.status is 'Delivery status in the service''s own words: pending, scheduled, sent, failed, cancelled or another.';
comment on column intake.messages.content is 'Text of the message.';
comment on column intake.messages.scheduled_at is 'When it is to be sent; null when at once.';
comment on column intake.messages.sent_at is 'When it was sent.';
comment on column intake.messages.created_at is 'When the service created the record.';
comment on column intake.messages.updated_at is 'When the service last changed the record.';
comment on column intake.messages._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.messages._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.messages._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.messages._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.messages._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.messages._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.messages._problems is 'Fields that could not be read as their type: an array of path, reason and original.';
