-- Retention: superseded payloads, runs, settled dead letters and old entries of logs are removed in small portions.

create index record_history_by_age on intake_raw.record_history (superseded_at);
create index run_streams_newest on intake_ops.run_streams (team_id, stream, run_id desc);
create index verifications_newest on intake_ops.verifications (team_id, stream, run_id desc);
create index webhook_deliveries_by_version on intake.webhook_deliveries (team_id, _version);
comment on table intake.webhook_deliveries is 'One row a webhook event record: an attempt to deliver. A log: entries are removed here only by age (INTAKE_RUN_DAYS).';
comment on table intake_raw.record_history is 'States of records that a newer one superseded, for INTAKE_HISTORY_DAYS.';

create table intake_ops.pruned_logs (
  team_id smallint not null,
  stream  text not null,
  before  timestamptz not null,
  primary key (team_id, stream)
);
comment on table intake_ops.pruned_logs is 'Up to when the entries of a log were removed (INTAKE_RUN_DAYS): older entries that the service still lists are not loaded again.';
comment on column intake_ops.pruned_logs.team_id is 'The team.';
comment on column intake_ops.pruned_logs.stream is 'The stream.';
comment on column intake_ops.pruned_logs.before is 'Entries with an earlier time are not stored; those without a time are.';

create table intake_ops.former_identities (
  team_id smallint not null,
  id      text not null,
  hash    bytea not null,
  primary key (team_id, id, hash)
);
comment on table intake_ops.former_identities is 'Identities in removed superseded payloads of patients, as keyed hashes, by which an erasure finds rows of exports.';
comment on column intake_ops.former_identities.team_id is 'The team.';
comment on column intake_ops.former_identities.id is 'The patient.';
comment on column intake_ops.former_identities.hash is 'HMAC-SHA256 of an external id, or of e-mail address and name, under the key of erasures.';
