-- Counts of records are kept, not counted: every statement that writes intake_raw.records appends what it changed, in the
-- same transaction. Nobody waits for anybody: a count is the sum of its rows, which serve sums up from time to time.

create table intake_ops.record_counts (
  team_id  smallint not null,
  stream   text not null,
  live     bigint not null,
  deleted  bigint not null,
  newest   timestamptz,
  is_stale boolean not null default false
);
create index record_counts_by_stream on intake_ops.record_counts (team_id, stream);
comment on table intake_ops.record_counts is 'Changes of the numbers of records, whose sum by team and stream is the number in intake_raw.records.';
comment on column intake_ops.record_counts.team_id is 'The team.';
comment on column intake_ops.record_counts.stream is 'The stream.';
comment on column intake_ops.record_counts.live is 'Live records that were added, less those that went.';
comment on column intake_ops.record_counts.deleted is 'Tombstones that were added, less those that went.';
comment on column intake_ops.record_counts.newest is 'Newest version that was written; the greatest counts.';
comment on column intake_ops.record_counts.is_stale is 'True if the record with the newest version went, or got an earlier one: the newest has to be looked up.';

create function intake_raw.count_inserted() returns trigger language plpgsql as $$
begin
  insert into intake_ops.record_counts (team_id, stream, live, deleted, newest)
  select team_id, stream, count(*) filter (where not deleted), count(*) filter (where deleted), max(version)
  from current group by 1, 2;
  return null;
end
$$;
comment on function intake_raw.count_inserted() is 'Appends what an insert adds to intake_ops.record_counts.';

create function intake_raw.count_updated() returns trigger language plpgsql as $$
begin
  insert into intake_ops.record_counts (team_id, stream, live, deleted, newest, is_stale)
  select team_id, stream,
    sum(case when not deleted then sign else 0 end), sum(case when deleted then sign else 0 end),
    max(version) filter (where sign = 1),
    max(version) filter (where sign = -1) > max(version) filter (where sign = 1) and max(version) filter (where sign = -1) >= (
      select max(known.newest) from intake_ops.record_counts known
      where known.team_id = changed.team_id and known.stream = changed.stream
    )
  from (
    select team_id, stream, deleted, version, 1 as sign from current
    union all
    select team_id, stream, deleted, version, -1 from superseded
  ) changed
  group by 1, 2;
  return null;
end
$$;
comment on function intake_raw.count_updated() is 'Appends what an update changes to intake_ops.record_counts.';

create function intake_raw.count_deleted() returns trigger language plpgsql as $$
begin
  insert into intake_ops.record_counts (team_id, stream, live, deleted, is_stale)
  select team_id, stream, -count(*) filter (where not deleted), -count(*) filter (where deleted),
    max(version) >= (
      select max(known.newest) from intake_ops.record_counts known
      where known.team_id = superseded.team_id and known.stream = superseded.stream
    ) is not false
  from superseded group by 1, 2;
  return null;
end
$$;
comment on function intake_raw.count_deleted() is 'Appends what a delete removes to intake_ops.record_counts.';

create function intake_raw.count_truncated() returns trigger language plpgsql as $$
begin
  delete from intake_ops.record_counts;
  return null;
end
$$;
comment on function intake_raw.count_truncated() is 'Empties intake_ops.record_counts with intake_raw.records.';

create trigger count_inserted after insert on intake_raw.records
  referencing new table as current for each statement execute function intake_raw.count_inserted();
create trigger count_updated after update on intake_raw.records
  referencing old table as superseded new table as current
  for each statement execute function intake_raw.count_updated();
create trigger count_deleted after delete on intake_raw.records
  referencing old table as superseded for each statement execute function intake_raw.count_deleted();
create trigger count_truncated after truncate on intake_raw.records
  for each statement execute function intake_raw.count_truncated();

insert into intake_ops.record_counts (team_id, stream, live, deleted, newest)
select team_id, stream, count(*) filter (where not deleted), count(*) filter (where deleted), max(version)
from intake_raw.records group by 1, 2;
