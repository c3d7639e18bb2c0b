-- The newest payload of each record, and those it superseded. Whether a state wins is decided here and nowhere else:
-- the tables of intake follow what intake_raw.records accepted.

create table intake_raw.records (
  team_id     smallint not null,
  stream      text not null,
  id          text not null,
  version     timestamptz not null,
  observed_at timestamptz not null,
  deleted     boolean not null default false,
  hash        bytea not null,
  origin      text not null,
  payload     jsonb,
  primary key (team_id, stream, id)
);
comment on table intake_raw.records is 'The newest state of each record, as the service sent it; a deleted record keeps a row without payload.';
comment on column intake_raw.records.team_id is 'The team.';
comment on column intake_raw.records.stream is 'The stream.';
comment on column intake_raw.records.id is 'The service''s id of the record.';
comment on column intake_raw.records.version is 'Orders the states of one record: the later of updated_at and observed_at.';
comment on column intake_raw.records.observed_at is 'Lower bound, in the service''s clock, of the moment this state was read there.';
comment on column intake_raw.records.deleted is 'True when the service no longer has the record.';
comment on column intake_raw.records.hash is 'First 128 bits of the SHA-256 of the payload''s canonical text; empty when deleted.';
comment on column intake_raw.records.origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake_raw.records.payload is 'The payload as it came; what Postgres cannot hold is written visibly.';

create table intake_raw.record_history (
  team_id       smallint not null,
  stream        text not null,
  id            text not null,
  version       timestamptz not null,
  observed_at   timestamptz not null,
  deleted       boolean not null,
  hash          bytea not null,
  origin        text not null,
  payload       jsonb,
  superseded_at timestamptz not null default now()
);
create index record_history_of on intake_raw.record_history (team_id, stream, id, version);
comment on table intake_raw.record_history is 'States of records that a newer one superseded.';
comment on column intake_raw.record_history.team_id is 'The team.';
comment on column intake_raw.record_history.stream is 'The stream.';
comment on column intake_raw.record_history.id is 'The service''s id of the record.';
comment on column intake_raw.record_history.version is 'Version of the superseded state.';
comment on column intake_raw.record_history.observed_at is 'When, at the earliest, the superseded state was read at the service.';
comment on column intake_raw.record_history.deleted is 'True when the superseded state was a tombstone.';
comment on column intake_raw.record_history.hash is 'Content hash of the superseded state.';
comment on column intake_raw.record_history.origin is 'Where the superseded state came from.';
comment on column intake_raw.record_history.payload is 'The superseded payload.';
comment on column intake_raw.record_history.superseded_at is 'When this warehouse replaced it.';

-- Whoever replaces a content keeps the one before: no writer can forget to. A version that only moves on with the
-- same content leaves no history.
create function intake_raw.keep_superseded() returns trigger language plpgsql as $$
begin
  insert into intake_raw.record_history
    (team_id, stream, id, version, observed_at, deleted, hash, origin, payload)
  select o.team_id, o.stream, o.id, o.version, o.observed_at, o.deleted, o.hash, o.origin, o.payload
  from superseded o
  join current n using (team_id, stream, id)
  where n.hash <> o.hash or n.deleted <> o.deleted;
  return null;
end
$$;
comment on function intake_raw.keep_superseded() is 'Copies each content that an update replaces to intake_raw.record_history.';

create trigger keep_superseded after update on intake_raw.records
  referencing old table as superseded new table as current
  for each statement execute function intake_raw.keep_superseded();

create table intake_raw.set_aside (
  dead_letter_id bigint primary key references intake_ops.dead_letters on delete cascade,
  body           bytea not null
);
comment on table intake_raw.set_aside is 'What each dead letter held.';
comment on column intake_raw.set_aside.dead_letter_id is 'The dead letter.';
comment on column intake_raw.set_aside.body is 'The record or event, in UTF-8.';
