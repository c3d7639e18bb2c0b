-- How far a run has come, for those who watch it.

create table intake_ops.run_progress (
  run_id         bigint not null references intake_ops.runs on delete cascade,
  team_id        smallint not null,
  stream         text not null,
  phase          text not null,
  pages          bigint not null,
  requests       bigint not null,
  throttled      bigint not null,
  fetched        bigint not null,
  expected       bigint,
  permitted_rate double precision,
  began_at       timestamptz not null,
  updated_at     timestamptz not null default now(),
  primary key (run_id, team_id, stream)
);
comment on table intake_ops.run_progress is 'How far a run has come with each stream, stored about once a second. Runs of less than a second leave no row.';
comment on column intake_ops.run_progress.run_id is 'The run.';
comment on column intake_ops.run_progress.team_id is 'The team.';
comment on column intake_ops.run_progress.stream is 'The stream.';
comment on column intake_ops.run_progress.phase is 'plan, fetch, merge, delete check, compare (of a verification) or ended.';
comment on column intake_ops.run_progress.pages is 'Pages read so far.';
comment on column intake_ops.run_progress.requests is 'Requests sent so far, repeated ones included.';
comment on column intake_ops.run_progress.throttled is 'Requests answered 429 so far.';
comment on column intake_ops.run_progress.fetched is 'Records read so far.';
comment on column intake_ops.run_progress.expected is 'Records that the service counts; null where it does not.';
comment on column intake_ops.run_progress.permitted_rate is 'Permitted requests per second of the team, configured or learned; null while no limit is known.';
comment on column intake_ops.run_progress.began_at is 'When the run began with the stream, in the clock of the run.';
comment on column intake_ops.run_progress.updated_at is 'When the row was stored.';

create table intake_ops.run_log (
  run_id  bigint not null references intake_ops.runs on delete cascade,
  line    integer not null,
  at      timestamptz not null,
  level   text not null,
  team_id smallint,
  stream  text,
  message text not null,
  primary key (run_id, line)
);
comment on table intake_ops.run_log is 'The newest lines of the log of a run of more than a second, three hundred at most. Contains no value of a record.';
comment on column intake_ops.run_log.run_id is 'The run.';
comment on column intake_ops.run_log.line is 'Number of the line in the run, from 1.';
comment on column intake_ops.run_log.at is 'When it was logged, in the clock of the run.';
comment on column intake_ops.run_log.level is 'info, warn or error.';
comment on column intake_ops.run_log.team_id is 'The team that it is about; null for none.';
comment on column intake_ops.run_log.stream is 'The stream that it is about; null for none.';
comment on column intake_ops.run_log.message is 'The text of the line.';
