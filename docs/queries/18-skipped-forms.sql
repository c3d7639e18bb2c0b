-- Which forms does the logic of each packet leave out?
select packet, form, count(*) as responses, count(*) filter (where is_skipped) as skipped
from intake_analytics.responses
where packet_id is not null
group by packet, form
order by skipped desc, packet, form;
