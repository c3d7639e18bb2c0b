-- A statement can not decide whether the newest version is stale: while it is open, a record that was newer may go, and the
-- rows be summed up. So it notes the newest version that went, and who reads decides, as for intake_ops.newest_times.

alter table intake_ops.record_counts add column gone timestamptz;
comment on column intake_ops.record_counts.gone is 'Newest version that went, or was replaced by an earlier one. If no greater one was written, the newest has to be looked up.';
comment on column intake_ops.record_counts.is_stale is 'Of earlier versions; gone replaces it.';
update intake_ops.record_counts set gone = 'infinity' where is_stale;

create or replace function intake_raw.count_updated() returns trigger language plpgsql as $$
begin
  insert into intake_ops.record_counts (team_id, stream, live, deleted, newest, gone)
  select team_id, stream,
    sum(case when not deleted then sign else 0 end), sum(case when deleted then sign else 0 end),
    max(version) filter (where sign = 1),
    case
      when max(version) filter (where sign = 1) >= max(version) filter (where sign = -1) then null
      else max(version) filter (where sign = -1)
    end
  from (
    select team_id, stream, deleted, version, 1 as sign from current
    union all
    select team_id, stream, deleted, version, -1 from superseded
  ) changed
  group by 1, 2;
  return null;
end
$$;

create or replace function intake_raw.count_deleted() returns trigger language plpgsql as $$
begin
  insert into intake_ops.record_counts (team_id, stream, live, deleted, gone)
  select team_id, stream, -count(*) filter (where not deleted), -count(*) filter (where deleted), max(version)
  from superseded group by 1, 2;
  return null;
end
$$;
