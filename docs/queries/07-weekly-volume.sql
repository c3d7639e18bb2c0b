-- How many responses and messages were there each week?
select date_trunc('week', day)::date as week,
  sum(responses_asked)::int as asked, sum(responses_submitted)::int as submitted, sum(messages_sent)::int as messages
from intake_analytics.daily_volume
group by 1
order by 1;
