-- What several `serve` processes agree by: who takes which moment of the schedule; and how many events came when.

create table intake_ops.schedule_ticks (
  team_id  smallint not null,
  job      text not null,
  due_at   timestamptz not null,
  taken_by uuid not null,
  taken_at timestamptz not null default now(),
  primary key (team_id, job, due_at)
);
comment on table intake_ops.schedule_ticks is 'Moments of the schedule that a serve process has taken: whoever inserts the row runs it, so that it runs once.';
comment on column intake_ops.schedule_ticks.team_id is 'The team that the run is for.';
comment on column intake_ops.schedule_ticks.job is 'What is run: backfill.';
comment on column intake_ops.schedule_ticks.due_at is 'The moment, as the schedule names it.';
comment on column intake_ops.schedule_ticks.taken_by is 'Made-up name of whoever took it: after a lost answer it asks again and finds that it has it.';
comment on column intake_ops.schedule_ticks.taken_at is 'When a process took it.';

create table intake_ops.events_received (
  team_id smallint not null,
  hour    timestamptz not null,
  events  bigint not null,
  last_at timestamptz not null,
  primary key (team_id, hour)
);
comment on table intake_ops.events_received is 'Signed webhook events by team and hour, to notice when they stop. Written every few seconds by the processes that receive: one that is killed takes the last few seconds of its count along, not its events.';
comment on column intake_ops.events_received.team_id is 'The team.';
comment on column intake_ops.events_received.hour is 'The hour, in the clock of the warehouse, in which they were counted.';
comment on column intake_ops.events_received.events is 'Events received, repeated ones not among them.';
comment on column intake_ops.events_received.last_at is 'When the last one of the hour was counted, repeated ones among them.';
