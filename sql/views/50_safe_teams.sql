-- A team may be called after a place smaller than a state.
create or replace view intake_safe_harbor.teams with (security_barrier = true) as
select team_id, 'team ' || team_id as team from intake_analytics.teams;

comment on view intake_safe_harbor.teams is 'The teams whose data you see.';
comment on column intake_safe_harbor.teams.team_id is 'Number of the team in this warehouse.';
comment on column intake_safe_harbor.teams.team is '"team" and its number: its name may be that of a town.';
