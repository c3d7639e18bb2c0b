-- A run is a backfill, a verification or a replay. `drain` was documented and never written; what a person may have
-- stored under it drained stored events, which is a replay.

update intake_ops.runs set kind = 'replay' where kind = 'drain';
alter table intake_ops.runs add constraint runs_kind check (kind in ('backfill', 'verify', 'replay'));
comment on column intake_ops.runs.kind is 'backfill, verify or replay.';
