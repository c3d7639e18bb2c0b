-- What share of the forms requested by message was never answered, by channel?
select channel, count(*) as sent,
  count(*) filter (where is_opened) as opened,
  count(*) filter (where is_answered) as answered,
  round(count(*) filter (where not is_answered) / count(*)::numeric, 4) as share_unanswered
from intake_analytics.message_outcomes
where is_sent and form_id is not null and packet_id is null
group by channel
order by channel;
