-- Webhook configurations and the log of deliveries (specification, sections 2.6 and 2.7). Signature secrets are never here.

create table intake.webhook_configs (
  team_id smallint not null,
  id text not null,
  target_url text,
  event_types text[],
  sources text[],
  is_active boolean,
  created_at timestamptz,
  _version timestamptz not null,
  _deleted_at timestamptz,
  _origin text not null,
  _loaded_at timestamptz not null default now(),
  _hash bytea,
  _extra jsonb,
  _problems jsonb,
  primary key (team_id, id)
);
comment on table intake.webhook_configs is 'One row a webhook configuration of a team at the service.';
comment on column intake.webhook_configs.team_id is 'The team (intake.teams).';
comment on column intake.webhook_configs.id is 'The service''s id of the configuration.';
comment on column intake.webhook_configs.target_url is 'Where events are sent.';
comment on column intake.webhook_configs.event_types is 'Event types that are sent: created, updated, deleted.';
comment on column intake.webhook_configs.sources is 'Resources whose events are sent.';
comment on column intake.webhook_configs.is_active is 'True when events are sent.';
comment on column intake.webhook_configs.created_at is 'When the service created the record.';
comment on column intake.webhook_configs._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.webhook_configs._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.webhook_configs._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.webhook_configs._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.webhook_configs._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.webhook_configs._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.webhook_configs._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.webhook_deliveries (
  team_id smallint not null,
  id text not null,
  event_id text,
  webhook_config_id text,
  event_type text,
  source text,
  status text,
  response_status_code int,
  attempts int,
  error text,
  created_at timestamptz,
  next_retry_at timestamptz,
  _version timestamptz not null,
  _deleted_at timestamptz,
  _origin text not null,
  _loaded_at timestamptz not null default now(),
  _hash bytea,
  _extra jsonb,
  _problems jsonb,
  primary key (team_id, id)
);
create index webhook_deliveries_of_config on intake.webhook_deliveries (team_id, webhook_config_id, created_at);
comment on table intake.webhook_deliveries is 'One row a webhook event record: an attempt to deliver. A log, of which nothing is deleted here.';
comment on column intake.webhook_deliveries.team_id is 'The team (intake.teams).';
comment on column intake.webhook_deliveries.id is 'The service''s id of the record.';
comment on column intake.webhook_deliveries.event_id is 'The event: the id of its envelope.';
comment on column intake.webhook_deliveries.webhook_config_id is 'The configuration that it was sent by.';
comment on column intake.webhook_deliveries.event_type is 'Event type: created, updated or deleted.';
comment on column intake.webhook_deliveries.source is 'Resource that the event is about.';
comment on column intake.webhook_deliveries.status is 'Outcome in the service''s own words: succeeded, failed or another.';
comment on column intake.webhook_deliveries.response_status_code is 'HTTP status that the receiver answered; null when there was no answer.';
comment on column intake.webhook_deliveries.attempts is 'Attempts so far, as the service counts them.';
comment on column intake.webhook_deliveries.error is 'What went wrong, as the service says it.';
comment on column intake.webhook_deliveries.created_at is 'When the service created the record.';
comment on column intake.webhook_deliveries.next_retry_at is 'When it is tried again; null when it is not.';
comment on column intake.webhook_deliveries._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.webhook_deliveries._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.webhook_deliveries._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.webhook_deliveries._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.webhook_deliveries._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.webhook_deliveries._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.webhook_deliveries._problems is 'Fields that could not be read as their type: an array of path, reason and original.';
