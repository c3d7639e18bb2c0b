-- How far do patients come in each packet: set up, started, submitted?
select packet, count(*) as set_up,
  count(*) filter (where activity in ('progress', 'submitted')) as begun,
  count(*) filter (where is_submitted) as submitted,
  round(count(*) filter (where is_submitted) / count(*)::numeric, 4) as share_submitted
from intake_analytics.packet_progress
group by packet
order by packet;
