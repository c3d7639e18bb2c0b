-- How many patients have each tag, and how many of their forms are submitted?
with answered as (
  select team_id, patient, count(*) as responses, count(*) filter (where is_submitted and is_skipped is not true) as submitted
  from intake_analytics.responses
  group by team_id, patient
)
select tag, count(distinct p.patient) as patients,
  coalesce(sum(a.responses), 0)::int as responses, coalesce(sum(a.submitted), 0)::int as submitted
from intake_analytics.patients p
cross join unnest(p.tags) as tag
left join answered a using (team_id, patient)
group by tag
order by patients desc, tag;
