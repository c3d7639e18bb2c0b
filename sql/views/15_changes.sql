-- Changes of transactions that are older than every open one: a later commit has a greater number.
create or replace view intake.changes with (security_barrier = true) as
select r.change_seq as seq, r.team_id, r.stream, r.id,
  case when r.deleted then 'delete' else 'upsert' end as operation,
  r.version, coalesce(r.changed_at, r.version) as changed_at,
  intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.id) as key
from intake_raw.records r
cross join intake_ops.analytics_key k
where r.change_seq < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[])
union all
select r.change_seq, r.team_id, r.stream, r.key, 'delete', r.removed_at, r.removed_at, r.key
from intake_raw.removed_records r
where r.change_seq < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake.changes is 'The change feed: the last change of each record, numbered in the order of transactions. Read those above the greatest number that you have.';
comment on column intake.changes.seq is 'Number of the change. A record that changes again moves to a greater number; no change ever appears below one that was visible.';
comment on column intake.changes.team_id is 'The team (intake.teams).';
comment on column intake.changes.stream is 'The stream: patients, forms, responses and so on.';
comment on column intake.changes.id is 'The service''s id of the record; of an erased one, its key, because the id is gone.';
comment on column intake.changes.operation is 'upsert, or delete: the record is gone at the service, or was erased here.';
comment on column intake.changes.version is 'Version of the record''s state.';
comment on column intake.changes.changed_at is 'When the transaction that wrote it began.';
comment on column intake.changes.key is 'Pseudonym of the record (HMAC-SHA256 of team and id), by which an erased record is found in a copy.';
