-- Dropping a day never blocks storing: the lock of the inbox is waited for briefly (lock_timeout of the session), those of
-- the day and of the default partition not at all, and a failure is tried again after a pause without any lock. The day
-- is read before, once; its files are removed by Postgres after the locks are released.

create or replace function intake_raw.drop_inbox_day(day date, settled_before timestamptz) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := 'inbox_' || to_char(day, 'YYYYMMDD');
  attempts constant int := 5;
  kept boolean;
begin
  if to_regclass(format('intake_raw.%I', name)) is null then return false; end if;
  execute format('select exists (select from intake_raw.%I where status = %L)', name, 'pending') into kept;
  if kept then return false; end if;
  execute format(
    'select exists (select from intake_raw.%I where settled_at is null or settled_at >= $1)', name)
    into kept using settled_before;
  if kept then return false; end if;
  for attempt in 1 .. attempts loop
    begin
      lock table only intake_raw.inbox in access exclusive mode;
      execute format('lock table intake_raw.%I, only intake_raw.inbox_rest in access exclusive mode nowait', name);
      exit;
    exception when lock_not_available then
      if attempt = attempts then raise; end if;
      perform pg_sleep(0.3);
    end;
  end loop;
  -- Only a replay makes an event pending again; by the index this takes no time.
  execute format('select exists (select from intake_raw.%I where status = %L)', name, 'pending') into kept;
  if kept then return false; end if;
  execute format('drop table intake_raw.%I', name);
  return true;
end
$$;
