-- On which days and at which hours (UTC) are forms submitted?
select extract(isodow from submitted_at)::int as weekday, extract(hour from submitted_at)::int as hour, count(*) as submitted
from intake_analytics.responses
where is_submitted and is_skipped is not true
group by 1, 2
order by 1, 2;
