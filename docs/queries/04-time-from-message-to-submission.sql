-- What is the median time from a message to the submission it requested, by channel?
select channel, count(*) as answered,
  round(extract(epoch from percentile_cont(0.5) within group (order by time_to_answer))::numeric / 3600, 2) as median_hours
from intake_analytics.message_outcomes
where time_to_answer is not null
group by channel
order by channel;
