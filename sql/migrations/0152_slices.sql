-- Slices of runs, which any process may execute.

create table intake_ops.slices (
  slice_id     bigint generated always as identity primary key,
  run_id       bigint not null references intake_ops.runs on delete cascade,
  team_id      smallint,
  stream       text not null,
  spec         jsonb not null,
  state        text not null default 'pending' check (state in ('pending', 'claimed', 'done', 'canceled')),
  epoch        bigint not null default 0,
  owner        text,
  heartbeat_at timestamptz,
  takeovers    integer not null default 0,
  result       jsonb,
  planned_at   timestamptz not null default now(),
  claimed_at   timestamptz,
  settled_at   timestamptz
);
comment on table intake_ops.slices is 'Parts of planned runs, each executed by one worker at a time. A run has one slice for each team and stream, and one that closes the run after them.';
comment on column intake_ops.slices.slice_id is 'Number of the slice, in the order of planning.';
comment on column intake_ops.slices.run_id is 'The run.';
comment on column intake_ops.slices.team_id is 'The team; null for the slice that closes the run.';
comment on column intake_ops.slices.stream is 'The stream; empty for the slice that closes the run.';
comment on column intake_ops.slices.spec is 'What to do, with the version of its form: kind stream (window, allow_mass_delete) or close.';
comment on column intake_ops.slices.state is 'pending, claimed by a worker, done, or canceled with its run.';
comment on column intake_ops.slices.epoch is 'That of the checkpoint under which a worker claimed the slice: raised when the slice is claimed and when it is taken away, so that a worker that lost it can settle nothing.';
comment on column intake_ops.slices.owner is 'The worker that claimed it, or settled it: its host, process and a random part.';
comment on column intake_ops.slices.heartbeat_at is 'When its worker last said that it executes the slice.';
comment on column intake_ops.slices.takeovers is 'How often its worker ended, or did not answer, before it settled the slice.';
comment on column intake_ops.slices.result is 'The report of the stream: counts, status and note, no value of a record.';
comment on column intake_ops.slices.planned_at is 'When the run was planned.';
comment on column intake_ops.slices.claimed_at is 'When a worker last claimed it.';
comment on column intake_ops.slices.settled_at is 'When it was done or canceled.';

create unique index slices_unfinished on intake_ops.slices (team_id, stream)
  where state in ('pending', 'claimed') and team_id is not null;
create index slices_pending on intake_ops.slices (team_id, slice_id) where state = 'pending';
create index slices_claimed on intake_ops.slices (owner) where state = 'claimed';
create index slices_of_run on intake_ops.slices (run_id);
