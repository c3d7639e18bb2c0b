-- Events pass through the inbox also of patients who were erased, until they are drained. What Postgres samples of them
-- for its planner would outlive them, and bodies of less than a kilobyte are sampled whole. No query looks for either
-- column by an index, so that nothing is planned worse without.

alter table intake_raw.inbox alter column record_id set statistics 0;
alter table intake_raw.inbox alter column body set statistics 0;
-- Forgets what was sampled so far; nothing is rewritten.
alter table intake_raw.inbox alter column record_id type text;
alter table intake_raw.inbox alter column body type bytea;

create or replace function intake_raw.add_inbox_day(day date, most_rows int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := 'inbox_' || to_char(day, 'YYYYMMDD');
  moved int;
begin
  perform pg_advisory_xact_lock(7204313, 0);
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
