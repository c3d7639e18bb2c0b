-- Who did what in the console.

create table intake_ops.audit (
  audit_id bigint generated always as identity primary key,
  at       timestamptz not null default now(),
  login    text not null,
  action   text not null,
  object   text not null,
  detail   jsonb not null default '{}'
);
create index audit_at on intake_ops.audit (at);
comment on table intake_ops.audit is 'One row for each login and each action in the console. Contains no value of a record.';
comment on column intake_ops.audit.audit_id is 'Number of the row.';
comment on column intake_ops.audit.at is 'When the action was requested, in the clock of the warehouse.';
comment on column intake_ops.audit.login is 'Who requested it: the login of the session.';
comment on column intake_ops.audit.action is 'login, logout, link, verify, retry, discard, classify, break and others.';
comment on column intake_ops.audit.object is 'What it was about: a team, a stream, a reason, the id of a record or a run. Empty where the action has no object.';
comment on column intake_ops.audit.detail is 'Counts and options of the action.';
