-- On which days and at which hours, in the time zone of each team, are forms submitted?
select extract(isodow from submitted_at at time zone t.timezone)::int as weekday,
  extract(hour from submitted_at at time zone t.timezone)::int as hour, count(*) as submitted
from intake_analytics.responses
join intake_analytics.teams t using (team_id)
where is_submitted and is_skipped is not true
group by 1, 2
order by 1, 2;
