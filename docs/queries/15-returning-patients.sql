-- How many patients come back to a form, and after how many days?
with visits as (
  select team_id, patient, form_id, form, submitted_at,
    lag(submitted_at) over (partition by team_id, patient, form_id order by submitted_at, response_id) as earlier
  from intake_analytics.responses
  where is_submitted and is_skipped is not true and patient is not null
)
select form, count(distinct patient) as patients,
  count(distinct patient) filter (where earlier is not null) as returned,
  round(percentile_cont(0.5) within group (order by extract(epoch from submitted_at - earlier) / 86400)::numeric, 1) as median_days
from visits
where form is not null
group by form
order by form;
