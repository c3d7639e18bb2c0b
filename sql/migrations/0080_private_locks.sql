-- Advisory locks are open to every login that may connect, and their keys were known: select pg_advisory_lock(7204315, 1)
-- stopped the loading of a team. Keys now follow from a secret of the installation.

create table intake_ops.lock_secret (
  only_one boolean primary key default true check (only_one),
  secret   bytea not null check (octet_length(secret) = 32)
);
comment on table intake_ops.lock_secret is 'The secret of this installation from which the keys of its advisory locks follow.';
comment on column intake_ops.lock_secret.only_one is 'Always true: there is one row.';
comment on column intake_ops.lock_secret.secret is 'Generated once, with the table. Another one makes other locks: processes under the old one and under the new one do not exclude each other.';
insert into intake_ops.lock_secret (secret)
values (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
revoke all on intake_ops.lock_secret from public;

create function intake_ops.lock_key(kind int, name text) returns bigint language sql stable
  set search_path = pg_catalog, pg_temp as $$
  select ('x' || encode(substr(sha256(secret || convert_to(kind || '/' || name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
  from intake_ops.lock_secret
$$;
comment on function intake_ops.lock_key(int, text) is 'The key of an advisory lock of this installation.';
revoke all on function intake_ops.lock_key(int, text) from public;

create function intake_ops.lock_holders(kind int, name text) returns text language sql stable
  set search_path = pg_catalog, pg_temp as $$
  select string_agg(
    format('session %s (%s, login %s)', lock.pid, coalesce(nullif(other.application_name, ''), 'unnamed'), other.usename),
    ', ' order by lock.pid)
  from pg_locks lock left join pg_stat_activity other on other.pid = lock.pid
  where lock.locktype = 'advisory' and lock.granted and lock.objsubid = 1
    and lock.database = (select oid from pg_database where datname = current_database())
    and (lock.classid::bigint << 32 | lock.objid::bigint) = intake_ops.lock_key(kind, name)
$$;
comment on function intake_ops.lock_holders(int, text) is 'The sessions that have taken an advisory lock, in words; null if there is none.';
revoke all on function intake_ops.lock_holders(int, text) from public;

create function intake_ops.take_lock(kind int, name text, is_shared boolean) returns void language plpgsql volatile as $$
declare
  key bigint := intake_ops.lock_key(kind, name);
begin
  if is_shared then
    perform pg_advisory_xact_lock_shared(key);
  else
    perform pg_advisory_xact_lock(key);
  end if;
exception when lock_not_available then
  raise exception using errcode = '55P03', message = 'a lock is taken', detail = intake_ops.lock_holders(kind, name);
end
$$;
comment on function intake_ops.take_lock(int, text, boolean) is 'Takes an advisory lock until the transaction ends. Raises 55P03 after lock_timeout, with the sessions that have it.';
revoke all on function intake_ops.take_lock(int, text, boolean) from public;

create or replace function intake_ops.hold_erasures(of_team smallint) returns bytea language plpgsql volatile as $$
begin
  perform intake_ops.take_lock(7204315, of_team::text, true);
  if exists (select from intake_ops.removed_teams where team_id = of_team) then
    raise exception using errcode = 'IT001', message = 'the team was removed';
  end if;
  return (
    select key from intake_ops.erasure_key
    where exists (select from intake_ops.erasures where team_id = of_team)
  );
end
$$;

-- A process of an older version notes an erasure under the old key: it takes this lock too, so that loads wait for it.
create function intake_ops.note_erasure_alone() returns trigger language plpgsql volatile as $$
begin
  if not exists (
    select from pg_locks
    where locktype = 'advisory' and granted and objsubid = 1 and pid = pg_backend_pid()
      and (classid::bigint << 32 | objid::bigint) = intake_ops.lock_key(7204315, new.team_id::text)
  ) then
    perform intake_ops.take_lock(7204315, new.team_id::text, false);
  end if;
  return new;
end
$$;
comment on function intake_ops.note_erasure_alone() is 'Makes loads of a team wait for an erasure that is being noted, also by an older version.';
revoke all on function intake_ops.note_erasure_alone() from public;
create trigger note_erasure_alone before insert on intake_ops.erasures
  for each row execute function intake_ops.note_erasure_alone();

create or replace function intake_raw.hold_inbox_of(team_ids smallint[]) returns smallint[] language plpgsql volatile as $$
begin
  perform intake_ops.take_lock(7204316, team.id::text, true)
  from (select distinct unnest(team_ids) as id order by 1) as team;
  -- A statement of its own: it has to see what was committed while it waited for the locks.
  return array(select team_id from intake_ops.removed_teams where team_id = any (team_ids));
end
$$;

create or replace function intake_raw.add_inbox_day(day date, most_rows int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := 'inbox_' || to_char(day, 'YYYYMMDD');
  moved int;
begin
  perform intake_ops.take_lock(7204313, 'inbox days', false);
  if to_regclass(format('intake_raw.%I', name)) is not null then return null; end if;
  execute format('create table intake_raw.%I (like intake_raw.inbox including all)', name);
  -- Not among what `like` copies.
  execute format('alter table intake_raw.%I alter column record_id set statistics 0', name);
  execute format('alter table intake_raw.%I alter column body set statistics 0', name);
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
