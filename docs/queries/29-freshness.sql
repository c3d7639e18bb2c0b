-- How current is the data of each team, and what is older than a day?
select team, stream, newest_record_at, last_run_at, last_event_at, lag, coalesce(lag > interval '26 hours', true) as is_stale
from intake_analytics.freshness
order by team, stream;
