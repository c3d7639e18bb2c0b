create or replace view intake_raw.safe_messages as
select m.team_id, m.message_id, m.patient, hashtextextended(m.patient, 0) as person,
  coalesce(m.form_id, m.packet_id, m.document_id) as target_id, m.form_id, m.form, m.packet_id, m.packet,
  m.channel, m.status, m.is_sent, m.is_opened, m.is_answered, years.sent as sent_year,
  case when years.sent = extract(year from m.answered_at at time zone 'UTC')
    then least(date_trunc('hour', m.time_to_answer), interval '720 hours') end as time_to_answer
from intake_analytics.message_outcomes m
cross join lateral (select extract(year from m.sent_at at time zone 'UTC')::int as sent) years;

comment on view intake_raw.safe_messages is 'Messages for intake_safe_harbor, before small groups are hidden.';
