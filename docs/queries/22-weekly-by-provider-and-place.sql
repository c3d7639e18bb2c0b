-- How many responses were submitted each week, by provider and by the state where the patient lives? Weeks are those of the
-- team's time zone. Responses are counted before patients are joined, because there are many.
with submitted as (
  select r.team_id, r.patient, r.provider, date_trunc('week', r.submitted_at at time zone t.timezone)::date as week, count(*) as responses
  from intake_analytics.responses r
  join intake_analytics.teams t using (team_id)
  where r.is_submitted and r.is_skipped is not true
  group by 1, 2, 3, 4
)
select s.week, s.provider, p.state, sum(s.responses)::int as responses
from submitted s
left join intake_analytics.patients p using (team_id, patient)
group by 1, 2, 3
order by 1, 2, 3;
