create or replace view intake_raw.safe_packets as
select p.team_id,
  coalesce(p.packet_response_id, concat_ws(':', p.patient, p.packet_id, extract(epoch from p.created_at))) as packet_response_id,
  p.patient, hashtextextended(p.patient, 0) as person, p.packet_id, p.packet, p.activity,
  coalesce(p.is_submitted, false) as is_submitted, coalesce(p.is_archived, false) as is_archived,
  years.created as created_year, years.submitted as submitted_year,
  case when years.created = years.submitted then least(date_trunc('hour', p.time_to_submit), interval '720 hours') end as time_to_submit
from intake_analytics.packet_progress p
cross join lateral (
  select extract(year from p.created_at at time zone 'UTC')::int as created,
    extract(year from p.submitted_at at time zone 'UTC')::int as submitted
) years;

comment on view intake_raw.safe_packets is 'Packet responses for intake_safe_harbor, before small groups are hidden.';
