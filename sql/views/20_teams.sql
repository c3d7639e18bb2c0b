create or replace view intake_analytics.teams with (security_barrier = true) as
select team_id, name as team, timezone
from intake.teams
where team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.teams is 'The teams that you see.';
comment on column intake_analytics.teams.team_id is 'Number of the team; every view has it.';
comment on column intake_analytics.teams.team is 'Name of the team.';
comment on column intake_analytics.teams.timezone is 'Time zone of the team: the days of daily figures are its days.';
