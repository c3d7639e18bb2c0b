-- As intake.changes, of the streams that analysts see. A person is shown as a pseudonym, other records as in the other views.
create or replace view intake_analytics.changes with (security_barrier = true) as
select r.change_seq as seq, r.team_id, r.stream,
  case when r.stream = /* the stream of persons */ then keyed.key else r.id end as id,
  case when r.deleted then 'delete' else 'upsert' end as operation,
  r.version, coalesce(r.changed_at, r.version) as changed_at, keyed.key
from intake_raw.records r
cross join intake_ops.analytics_key k
cross join lateral (select intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.id) as key) keyed
where r.change_seq < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
  and r.stream in (/* the streams of analysts */)
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[])
union all
select r.change_seq, r.team_id, r.stream, r.key, 'delete', r.removed_at, r.removed_at, r.key
from intake_raw.removed_records r
where r.change_seq < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
  and r.stream in (/* the streams of analysts */)
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.changes is 'The change feed: the last change of each record, numbered in the order of transactions. Read those above the greatest number that you have.';
comment on column intake_analytics.changes.seq is 'Number of the change. A record that changes again moves to a greater number; no change ever appears below one that was visible.';
comment on column intake_analytics.changes.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.changes.stream is 'The stream: patients, forms, responses and so on.';
comment on column intake_analytics.changes.id is 'The record as the other views show it: patient (a pseudonym), response_id and so on; of an erased one, its key.';
comment on column intake_analytics.changes.operation is 'upsert, or delete: the record is gone at the service, or was erased here.';
comment on column intake_analytics.changes.version is 'Version of the record''s state.';
comment on column intake_analytics.changes.changed_at is 'When the transaction that wrote it began.';
comment on column intake_analytics.changes.key is 'Pseudonym of the record (HMAC-SHA256 of team and id), by which an erased record is found in a copy.';
