-- Since when a slice waits, and which team was served last.

alter table intake_ops.slices add column pending_since timestamptz not null default now();
comment on column intake_ops.slices.pending_since is 'When it was planned, given back by its worker, or taken away from it.';

-- The last claim of each team.
create index slices_of_team on intake_ops.slices (team_id, claimed_at);
