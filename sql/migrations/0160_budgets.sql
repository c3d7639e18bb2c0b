-- The request budget of a team, which all processes share.

create table intake_ops.budgets (
  team_id      smallint primary key,
  "limit"      integer,
  "window"     interval,
  learned_at   timestamptz,
  paused_until timestamptz,
  division       jsonb not null,
  version      bigint not null
) with (fillfactor = 50);
comment on table intake_ops.budgets is 'The requests that the service permits each team, and how the processes of the team share them.';
comment on column intake_ops.budgets.team_id is 'The team (intake.teams).';
comment on column intake_ops.budgets."limit" is 'Permitted requests in any window, as learned from the service’s answers; null while none was refused.';
comment on column intake_ops.budgets."window" is 'Length of the window; null while no request was refused.';
comment on column intake_ops.budgets.learned_at is 'When limit or window last changed.';
comment on column intake_ops.budgets.paused_until is 'No process sends a request before this time; null without a pause.';
comment on column intake_ops.budgets.division is 'Shares of the processes, and what the limit was learned from; for intake-sync alone.';
comment on column intake_ops.budgets.version is 'Number of changes of the division.';
