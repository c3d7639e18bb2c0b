-- Who is loaded (intake.teams) and how loading went (intake_ops). Holds no health data.

create schema if not exists intake;
create schema if not exists intake_raw;
create schema if not exists intake_analytics;
create schema if not exists intake_ops;

comment on schema intake is 'Normalised tables, one row a record of the service and its children. Identified health data.';
comment on schema intake_raw is 'Payloads as the service sent them; for the loader only. Identified health data.';
comment on schema intake_analytics is 'Views for analysts, de-identified by default.';
comment on schema intake_ops is 'Runs, checkpoints, dead letters, drift: how loading went. Holds no health data.';

create table intake.teams (
  team_id     smallint generated always as identity primary key,
  name        text not null unique,
  environment text
);
comment on table intake.teams is 'The teams of this warehouse; every key of every table begins with a team.';
comment on column intake.teams.team_id is 'Number of the team in this warehouse.';
comment on column intake.teams.name is 'Name of the team, as configured.';
comment on column intake.teams.environment is 'What the service last called its environment (header X-Service-Environment).';

create table intake_ops.runs (
  run_id      bigint generated always as identity primary key,
  kind        text not null,
  status      text not null default 'running',
  options     jsonb not null default '{}',
  started_at  timestamptz not null default now(),
  finished_at timestamptz,
  error       text
);
comment on table intake_ops.runs is 'One row an execution of backfill, drain, replay or verify.';
comment on column intake_ops.runs.run_id is 'Number of the run.';
comment on column intake_ops.runs.kind is 'backfill, drain, replay or verify.';
comment on column intake_ops.runs.status is 'running, succeeded, failed, needs_attention, or interrupted (stopped or killed before its end).';
comment on column intake_ops.runs.options is 'What the run was asked for: streams, teams, switches.';
comment on column intake_ops.runs.started_at is 'When the run began.';
comment on column intake_ops.runs.finished_at is 'When the run ended; null while it runs, and for a run that was killed.';
comment on column intake_ops.runs.error is 'Why the run failed; never holds a value of the source.';

create table intake_ops.run_streams (
  run_id       bigint not null references intake_ops.runs on delete cascade,
  team_id      smallint not null,
  stream       text not null,
  status       text not null,
  requests     bigint not null default 0,
  throttled    bigint not null default 0,
  fetched      bigint not null default 0,
  changed      bigint not null default 0,
  unchanged    bigint not null default 0,
  deleted      bigint not null default 0,
  dead_letters bigint not null default 0,
  problems     bigint not null default 0,
  seconds      numeric not null default 0,
  note         text,
  primary key (run_id, team_id, stream)
);
comment on table intake_ops.run_streams is 'What one run did to one stream of one team.';
comment on column intake_ops.run_streams.run_id is 'The run.';
comment on column intake_ops.run_streams.team_id is 'The team.';
comment on column intake_ops.run_streams.stream is 'The stream.';
comment on column intake_ops.run_streams.status is 'succeeded, failed, needs_attention or interrupted.';
comment on column intake_ops.run_streams.requests is 'Requests sent, repeated ones included.';
comment on column intake_ops.run_streams.throttled is 'Requests answered 429.';
comment on column intake_ops.run_streams.fetched is 'Records read from the service.';
comment on column intake_ops.run_streams.changed is 'Records new or changed.';
comment on column intake_ops.run_streams.unchanged is 'Records that the warehouse held already.';
comment on column intake_ops.run_streams.deleted is 'Records proved gone.';
comment on column intake_ops.run_streams.dead_letters is 'Records set aside.';
comment on column intake_ops.run_streams.problems is 'Fields that could not be read as their type.';
comment on column intake_ops.run_streams.seconds is 'How long the stream took.';
comment on column intake_ops.run_streams.note is 'Why the stream failed or needs a person; never holds a value of the source.';

create table intake_ops.checkpoints (
  team_id    smallint not null,
  stream     text not null,
  slice      text not null default '',
  epoch      bigint not null default 0,
  cursor     jsonb,
  run_id     bigint,
  updated_at timestamptz not null default now(),
  primary key (team_id, stream, slice)
);
comment on table intake_ops.checkpoints is 'How far each slice has come, and who works on it now.';
comment on column intake_ops.checkpoints.team_id is 'The team.';
comment on column intake_ops.checkpoints.stream is 'The stream.';
comment on column intake_ops.checkpoints.slice is 'The part of the stream; empty for the whole.';
comment on column intake_ops.checkpoints.epoch is 'Counts the workers that took this slice; a settle of an earlier epoch is refused.';
comment on column intake_ops.checkpoints.cursor is 'High-water mark; null before the first settle.';
comment on column intake_ops.checkpoints.run_id is 'The run that last took or settled the slice.';
comment on column intake_ops.checkpoints.updated_at is 'When the slice was last taken or settled.';

create table intake_ops.dead_letters (
  id           bigint generated always as identity primary key,
  team_id      smallint not null,
  stream       text not null,
  record_id    text,
  fingerprint  text not null,
  origin       text not null,
  reason       text not null,
  status       text not null default 'waiting',
  seen         bigint not null default 1,
  created_at   timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  last_run_id  bigint
);
create unique index dead_letters_waiting on intake_ops.dead_letters (team_id, stream, fingerprint) where status = 'waiting';
comment on table intake_ops.dead_letters is 'Records and events set aside, with the reason; what they held is in intake_raw.set_aside.';
comment on column intake_ops.dead_letters.id is 'Number of the dead letter.';
comment on column intake_ops.dead_letters.team_id is 'The team.';
comment on column intake_ops.dead_letters.stream is 'The stream.';
comment on column intake_ops.dead_letters.record_id is 'Id of the record, where it has one.';
comment on column intake_ops.dead_letters.fingerprint is 'Hash of what was set aside: the same thing met again is the same dead letter.';
comment on column intake_ops.dead_letters.origin is 'Where it came from: a page of a run, a fetch, an event.';
comment on column intake_ops.dead_letters.reason is 'Why it was set aside; never holds a value.';
comment on column intake_ops.dead_letters.status is 'waiting, resolved (no longer met by a complete scan), retried or discarded.';
comment on column intake_ops.dead_letters.seen is 'How often it was met.';
comment on column intake_ops.dead_letters.created_at is 'When it was first met.';
comment on column intake_ops.dead_letters.last_seen_at is 'When it was last met.';
comment on column intake_ops.dead_letters.last_run_id is 'The run that last met it.';

create table intake_ops.problems (
  team_id    smallint not null,
  stream     text not null,
  path       text not null,
  reason     text not null,
  first_seen timestamptz not null default now(),
  last_seen  timestamptz not null default now(),
  count      bigint not null default 0,
  primary key (team_id, stream, path, reason)
);
comment on table intake_ops.problems is 'Fields that could not be read as their type; the values are in the rows'' own _problems.';
comment on column intake_ops.problems.team_id is 'The team.';
comment on column intake_ops.problems.stream is 'The stream.';
comment on column intake_ops.problems.path is 'The field, array positions left out.';
comment on column intake_ops.problems.reason is 'What was wrong; never holds a value.';
comment on column intake_ops.problems.first_seen is 'When it was first met.';
comment on column intake_ops.problems.last_seen is 'When it was last met in a new or changed record.';
comment on column intake_ops.problems.count is 'How often it was met in new or changed records.';

create table intake_ops.drift (
  team_id    smallint not null,
  stream     text not null,
  path       text not null,
  type       text not null,
  first_seen timestamptz not null default now(),
  last_seen  timestamptz not null default now(),
  count      bigint not null default 0,
  primary key (team_id, stream, path, type)
);
comment on table intake_ops.drift is 'Fields and types that this version of intake-sync does not know.';
comment on column intake_ops.drift.team_id is 'The team.';
comment on column intake_ops.drift.stream is 'The stream.';
comment on column intake_ops.drift.path is 'The field, array positions left out.';
comment on column intake_ops.drift.type is 'Its JSON type: string, number, boolean, null, object or array.';
comment on column intake_ops.drift.first_seen is 'When it was first met.';
comment on column intake_ops.drift.last_seen is 'When it was last met in a new or changed record.';
comment on column intake_ops.drift.count is 'How often it was met in new or changed records.';
