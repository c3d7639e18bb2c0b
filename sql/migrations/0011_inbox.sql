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
-- Compressing a body would cost more time than storing the event.
alter table intake_raw.inbox alter column body set storage external;
create table intake_raw.inbox_rest partition of intake_raw.inbox default;
alter table intake_raw.inbox_rest alter column body set storage external;

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

-- Partitions of days are made with the comments of the inbox; this one was made before they were given.
do $$
declare
  described record;
begin
  for described in
    select attname as name, col_description(attrelid, attnum) as told from pg_attribute
    where attrelid = 'intake_raw.inbox'::regclass and attnum > 0
  loop
    execute format('comment on column intake_raw.inbox_rest.%I is %L', described.name, described.told);
  end loop;
end
$$;

-- A login that is granted intake_loader owns no table, and still has to add and drop the days of the inbox: these two
-- do it for it, and nothing else.

create function intake_raw.add_inbox_day(day date, most_rows int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := 'inbox_' || to_char(day, 'YYYYMMDD');
  moved int;
begin
  perform pg_advisory_xact_lock(7204313, 0);
  if to_regclass(format('intake_raw.%I', name)) is not null then return null; end if;
  execute format('create table intake_raw.%I (like intake_raw.inbox including all)', name);
  lock table intake_raw.inbox_rest in access exclusive mode;
  if (select count(*) from (select from intake_raw.inbox_rest r where r.received_on = day limit most_rows + 1) r) > most_rows then
    raise exception using errcode = '54000', message = 'too many events of that day are in the default partition';
  end if;
  execute format(
    'with moved as (delete from intake_raw.inbox_rest where received_on = $1 returning *)
     insert into intake_raw.%I select * from moved', name) using day;
  get diagnostics moved = row_count;
  execute format(
    'alter table intake_raw.inbox attach partition intake_raw.%I for values from (%L) to (%L)', name, day, day + 1);
  execute format('comment on table intake_raw.%I is %L', name, 'Events received on ' || day || ', UTC.');
  return moved;
end
$$;
comment on function intake_raw.add_inbox_day is 'Gives a day its partition, with those of its events that the default partition caught; the number of them, or null where the partition is there. Raises 54000 when there are more than most_rows.';

create function intake_raw.drop_inbox_day(day date, settled_before timestamptz) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := 'inbox_' || to_char(day, 'YYYYMMDD');
  kept boolean;
begin
  if to_regclass(format('intake_raw.%I', name)) is null then return false; end if;
  execute format('select exists (select from intake_raw.%I where status = %L)', name, 'pending') into kept;
  if kept then return false; end if;
  execute format(
    'select exists (select from intake_raw.%I where settled_at is null or settled_at >= $1)', name)
    into kept using settled_before;
  if kept then return false; end if;
  lock table only intake_raw.inbox in access exclusive mode;
  execute format('lock table intake_raw.%I in access exclusive mode', name);
  -- Only a replay makes an event pending again; by the index this takes no time.
  execute format('select exists (select from intake_raw.%I where status = %L)', name, 'pending') into kept;
  if kept then return false; end if;
  execute format('drop table intake_raw.%I', name);
  return true;
end
$$;
comment on function intake_raw.drop_inbox_day is 'Drops the partition of a day whose events all left pending before that moment; false where one did not, or there is no such partition.';

revoke all on function intake_raw.add_inbox_day, intake_raw.drop_inbox_day from public;
