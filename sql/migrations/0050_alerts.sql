-- What was found wrong and posted to INTAKE_ALERT_URL, so that it is told once and again when it clears.

create table intake_ops.alerts (
  team_id    smallint not null,
  cause      text not null,
  stream     text not null default '',
  id         uuid not null default gen_random_uuid(),
  mark       bigint,
  figures    jsonb not null default '{}',
  raised_at  timestamptz not null default now(),
  cleared_at timestamptz,
  told       text,
  told_mark  bigint,
  told_at    timestamptz,
  attempts   int not null default 0,
  due_at     timestamptz not null default now(),
  primary key (team_id, cause, stream)
);
comment on table intake_ops.alerts is 'One row a cause: what was wrong, since when, and what of it the address of INTAKE_ALERT_URL was told. Counts and names of streams, no value.';
comment on column intake_ops.alerts.team_id is 'The team.';
comment on column intake_ops.alerts.cause is 'What is wrong: backfill_failed, inbox_old, webhooks_silent and their like (docs/operations.md).';
comment on column intake_ops.alerts.stream is 'The stream; empty where it is a matter of the team.';
comment on column intake_ops.alerts.id is 'Of this time that it is wrong: what was raised and what clears it have the same.';
comment on column intake_ops.alerts.mark is 'How many different ones there are, of causes that are told again when there are more; null for others.';
comment on column intake_ops.alerts.figures is 'Counts and the number of the run, as they were when it was found.';
comment on column intake_ops.alerts.raised_at is 'When it was found.';
comment on column intake_ops.alerts.cleared_at is 'When it was found to be over; null while it is wrong.';
comment on column intake_ops.alerts.told is 'What was told last: raised or cleared; null for nothing.';
comment on column intake_ops.alerts.told_mark is 'What mark was then.';
comment on column intake_ops.alerts.told_at is 'When that was answered 2xx.';
comment on column intake_ops.alerts.attempts is 'Posts that failed since.';
comment on column intake_ops.alerts.due_at is 'When it is posted again after one that failed.';
