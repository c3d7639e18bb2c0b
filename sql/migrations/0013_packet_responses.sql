-- How far packets have come: told by webhooks only.

create table intake.packet_responses (
  team_id smallint not null,
  id text not null,
  packet_id text,
  is_submitted boolean,
  submitted_at timestamptz,
  is_archived boolean,
  form_index int,
  is_queued boolean,
  activity text,
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
comment on table intake.packet_responses is 'One row a packet that was sent or set up, and how far its patient has come.';
comment on column intake.packet_responses.team_id is 'The team (intake.teams).';
comment on column intake.packet_responses.id is 'The service''s id of the packet response.';
comment on column intake.packet_responses.packet_id is 'The packet.';
comment on column intake.packet_responses.is_submitted is 'True when the whole packet was submitted.';
comment on column intake.packet_responses.submitted_at is 'When it was submitted.';
comment on column intake.packet_responses.is_archived is 'True when archived.';
comment on column intake.packet_responses.form_index is 'How many forms the patient has come through; null when no progress was told. Steps may be left out.';
comment on column intake.packet_responses.is_queued is 'True when queued for processing.';
comment on column intake.packet_responses.activity is 'submitted when is_submitted; else progress when form_index is above 0; else setup, which is nothing that a patient did.';
comment on column intake.packet_responses.created_at is 'When the service created the record.';
comment on column intake.packet_responses.updated_at is 'When the service last changed the record.';
comment on column intake.packet_responses._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.packet_responses._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.packet_responses._origin is 'The event that this state came from.';
comment on column intake.packet_responses._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.packet_responses._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.packet_responses._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.packet_responses._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.packet_response_members (
  team_id smallint not null,
  packet_response_id text not null,
  position int not null,
  response_id text,
  primary key (team_id, packet_response_id, position)
);
create index packet_response_members_of on intake.packet_response_members (team_id, response_id);
comment on table intake.packet_response_members is 'Responses of a packet response, in order. A member may be submitted without being answered: see responses.is_skipped.';
comment on column intake.packet_response_members.team_id is 'The team (intake.teams).';
comment on column intake.packet_response_members.packet_response_id is 'The packet response.';
comment on column intake.packet_response_members.position is 'Place in the payload, from 1.';
comment on column intake.packet_response_members.response_id is 'The response.';
