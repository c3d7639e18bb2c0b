-- Webhook events, stored before they are acknowledged (law 1), one partition a day so that old ones go by dropping it.

create table intake_raw.inbox (
  team_id     smallint not null,
  event_id    text not null,
  body_hash   bytea not null,
  received_on date not null,
  received_at timestamptz not null,
  seq         bigint not null,
  event_type  text,
  source      text,
  record_id   text,
  body        bytea not null,
  status      text not null default 'pending' check (status in ('pending', 'done', 'dead')),
  attempts    smallint not null default 0,
  due_at      timestamptz,
  settled_at  timestamptz,
  primary key (team_id, event_id, body_hash, received_on)
) partition by range (received_on);
create sequence intake_raw.inbox_seq owned by intake_raw.inbox.seq;
alter table intake_raw.inbox alter column seq set default nextval('intake_raw.inbox_seq');
create index inbox_pending on intake_raw.inbox (seq) where status = 'pending';
create table intake_raw.inbox_rest partition of intake_raw.inbox default;

comment on table intake_raw.inbox is 'Webhook events, each with its exact bytes, committed before it was acknowledged. One partition a UTC day.';
comment on column intake_raw.inbox.team_id is 'The team.';
comment on column intake_raw.inbox.event_id is 'Id of the event''s envelope; unreadable: and the hash of the body where none can be read.';
comment on column intake_raw.inbox.body_hash is 'SHA-256 of the body: an event may come again with newer data.';
comment on column intake_raw.inbox.received_on is 'UTC day of received_at: the partition.';
comment on column intake_raw.inbox.received_at is 'When the event was received, in the clock of the warehouse.';
comment on column intake_raw.inbox.seq is 'Order of storing.';
comment on column intake_raw.inbox.event_type is 'created, updated, deleted or another; null where it cannot be read.';
comment on column intake_raw.inbox.source is 'What the event is about: patient, form and so on; null where it cannot be read.';
comment on column intake_raw.inbox.record_id is 'The service''s id of the record; null where the event tells none.';
comment on column intake_raw.inbox.body is 'The exact bytes of the request. Identified health data.';
comment on column intake_raw.inbox.status is 'pending, done (its record is loaded, or it tells of nothing that is kept) or dead (set aside: intake_ops.dead_letters).';
comment on column intake_raw.inbox.attempts is 'How often loading it failed.';
comment on column intake_raw.inbox.due_at is 'Not to be tried again before; null for at once.';
comment on column intake_raw.inbox.settled_at is 'When it left pending.';
comment on table intake_raw.inbox_rest is 'Events of days that have no partition of their own yet.';
comment on sequence intake_raw.inbox_seq is 'Order of storing.';
