-- Which forms were requested, but not submitted in the last ninety days of the data?
with newest as (
  select max(last_submitted_at) as at from intake_analytics.form_completion
)
select f.form, f.started, f.last_submitted_at
from intake_analytics.form_completion f
cross join newest
where f.last_submitted_at is null or f.last_submitted_at < newest.at - interval '90 days'
order by f.last_submitted_at nulls first, f.form;
