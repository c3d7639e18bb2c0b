-- The change feed: every write of a record gives it a new number. A number begins with the id of the transaction that wrote it,
-- so that numbers of transactions that are still open are known to be greater than all numbers below the oldest of them, and a
-- reader who stops there misses none, however late one commits. Twenty bits tell the rows of one transaction apart.

create sequence intake_raw.change_ordinal minvalue 0 maxvalue 1048575 cycle cache 1000;
comment on sequence intake_raw.change_ordinal is 'Distinguishes the changes of one transaction (intake_raw.records.change_seq).';

-- A constant at first: rows that are there are not rewritten, and count as the oldest changes.
alter table intake_raw.records add column change_seq bigint not null default 1;
alter table intake_raw.records add column changed_at timestamptz;
alter table intake_raw.records alter column change_seq
  set default (pg_current_xact_id()::text::bigint << 20) | nextval('intake_raw.change_ordinal');
alter table intake_raw.records alter column changed_at set default now();
comment on column intake_raw.records.change_seq is 'Number of the last write, in the order of transactions (intake.changes); 1 for rows older than the feed.';
comment on column intake_raw.records.changed_at is 'When that transaction began; null for rows older than the feed.';
create index records_changes on intake_raw.records (change_seq);

create table intake_raw.removed_records (
  team_id    smallint not null,
  stream     text not null,
  key        text not null,
  change_seq bigint not null default (pg_current_xact_id()::text::bigint << 20) | nextval('intake_raw.change_ordinal'),
  removed_at timestamptz not null default now(),
  primary key (team_id, stream, key)
);
create index removed_records_changes on intake_raw.removed_records (change_seq);
comment on table intake_raw.removed_records is 'Records that were removed without a tombstone, as by erase: the change feed reports them by a keyed hash only.';
comment on column intake_raw.removed_records.team_id is 'The team (intake.teams).';
comment on column intake_raw.removed_records.stream is 'The stream.';
comment on column intake_raw.removed_records.key is 'Pseudonym of the record: HMAC-SHA256 of team and id.';
comment on column intake_raw.removed_records.change_seq is 'Number of the change, in the order of transactions (intake.changes).';
comment on column intake_raw.removed_records.removed_at is 'When the record was removed; the row stays for 400 days.';

create function intake_raw.note_removed_records() returns trigger language plpgsql as $$
begin
  delete from intake_raw.removed_records
  where removed_at < now() - interval '400 days' and team_id in (select team_id from gone);
  insert into intake_raw.removed_records as known (team_id, stream, key)
  select distinct gone.team_id, gone.stream, intake_ops.pseudonym(k.inner_pad, k.outer_pad, gone.team_id, gone.id)
  from gone cross join intake_ops.analytics_key k
  where gone.team_id not in (select team_id from intake_ops.removed_teams)
  order by 1, 2, 3
  on conflict (team_id, stream, key) do update set change_seq = default, removed_at = default;
  return null;
end
$$;
comment on function intake_raw.note_removed_records() is 'Reports removed records to the change feed.';

create trigger note_removed after delete on intake_raw.records
  referencing old table as gone for each statement execute function intake_raw.note_removed_records();

-- Transactions count anew on another server: numbers that this one has not reached are of the server that was dumped.
create function intake_raw.restart_changes() returns bigint language plpgsql as $$
declare
  ahead bigint;
begin
  update intake_raw.records set change_seq = 1
  where change_seq >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1 << 20;
  get diagnostics ahead = row_count;
  delete from intake_raw.removed_records
  where change_seq >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1 << 20;
  return ahead;
end
$$;
comment on function intake_raw.restart_changes() is 'Starts the change feed anew in a warehouse that was restored on another server; returns the number of records that were numbered by the former one.';
