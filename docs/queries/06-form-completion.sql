-- How many responses to each form were requested, submitted and skipped, and how long did they take?
select form, started, submitted, skipped, open, share_submitted,
  round(extract(epoch from median_time)::numeric / 3600, 2) as median_hours
from intake_analytics.form_completion
order by started desc, form;
