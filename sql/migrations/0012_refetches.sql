-- Records whose state only the service can tell: asked for by their id, within the team's request budget.

create table intake_ops.refetches (
  team_id      smallint not null,
  stream       text not null,
  id           text not null,
  reason       text not null,
  origin       text not null,
  since        timestamptz,
  asked        bigint not null default 1,
  attempts     int not null default 0,
  requested_at timestamptz not null default now(),
  due_at       timestamptz not null default now(),
  primary key (team_id, stream, id)
);
create index refetches_due on intake_ops.refetches (due_at);
comment on table intake_ops.refetches is 'Records to be fetched by id: their event was ambiguous, thin, or told of them by id only.';
comment on column intake_ops.refetches.team_id is 'The team.';
comment on column intake_ops.refetches.stream is 'The stream.';
comment on column intake_ops.refetches.id is 'The service''s id of the record.';
comment on column intake_ops.refetches.reason is 'contested (an event lost to, or tied with, another content), partial (an event did not hold the whole record) or member (of a submitted packet).';
comment on column intake_ops.refetches.origin is 'The event that first asked for it.';
comment on column intake_ops.refetches.since is 'Of a member: one that is held as submitted, and was read at this time or later, needs no asking.';
comment on column intake_ops.refetches.asked is 'How often it was asked for: one answer settles all that were asked before its request began.';
comment on column intake_ops.refetches.attempts is 'Requests that did not settle it.';
comment on column intake_ops.refetches.requested_at is 'When it was first asked for.';
comment on column intake_ops.refetches.due_at is 'Not to be fetched before; a worker that takes it moves this on.';
