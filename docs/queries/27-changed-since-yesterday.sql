-- How many records were written or deleted since the beginning of yesterday, in the time zone of each team?
select t.team, c.stream, c.operation, count(*)::int as records, max(c.changed_at) as last_change
from intake_analytics.changes c
join intake_analytics.teams t using (team_id)
where c.changed_at >= (date_trunc('day', now() at time zone t.timezone) - interval '1 day') at time zone t.timezone
group by 1, 2, 3
order by 1, 2, 3;
