-- A message is answered by the first response of its patient to what it asks for that the logic of a packet did not leave
-- out, if that was created when the message was
-- sent or later, and before the next message for the same was sent.
create or replace view intake_analytics.message_outcomes with (security_barrier = true) as
with asked as (
  select m.*, lead(m.sent_at) over (
      partition by m.team_id, m.patient_id, m.form_id, m.packet_id, m.document_id order by m.sent_at, m.id
    ) as next_sent_at
  from intake.messages m
  where m._deleted_at is null
)
select m.team_id, m.id as message_id,
  case when m.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, m.team_id, m.patient_id) end as patient,
  m.form_id, f.name as form, m.packet_id, p.name as packet, m.document_id,
  case when lower(m.preferred_delivery_method) in ('email', 'sms') then lower(m.preferred_delivery_method)
    when m.preferred_delivery_method is not null then 'other' end as channel,
  case when lower(m.status) in ('pending', 'scheduled', 'sent', 'failed', 'cancelled', 'delivered', 'bounced', 'queued',
    'canceled') then lower(m.status) when m.status is not null then 'other' end as status,
  m.created_at, m.scheduled_at, m.sent_at, m.sent_at is not null as is_sent,
  r.id as response_id,
  coalesce(r.is_submitted or r.updated_at > r.created_at or r.created_at > m.sent_at + interval '1 minute', false) as is_opened,
  coalesce(r.is_submitted, false) as is_answered,
  r.submitted_at as answered_at,
  case when r.submitted_at >= m.sent_at then r.submitted_at - m.sent_at end as time_to_answer,
  intake_ops.provider(k.inner_pad, k.outer_pad, m.team_id, pt.provider) as provider
from asked m
cross join intake_ops.analytics_key k
left join intake.forms f on f.team_id = m.team_id and f.id = m.form_id
left join intake.packets p on p.team_id = m.team_id and p.id = m.packet_id
left join intake.patients pt on pt.team_id = m.team_id and pt.id = m.patient_id
left join lateral (
  select r.id, r.is_submitted, r.created_at, r.updated_at, r.submitted_at
  from intake.responses r
  where r.team_id = m.team_id and r.patient_id = m.patient_id and r._deleted_at is null
    and case
      when m.packet_id is not null then r.packet_id = m.packet_id
      when m.form_id is not null then r.form_id = m.form_id and r.packet_id is null
      else r.document_id = m.document_id
    end
    and r.is_skipped is not true
    and r.created_at >= m.sent_at - interval '1 second'
    and (m.next_sent_at is null or r.created_at < m.next_sent_at - interval '1 second')
  order by r.created_at, r.id
  limit 1
) r on true
where m.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.message_outcomes is 'One row per message: whether it was sent, opened and answered, and how soon.';
comment on column intake_analytics.message_outcomes.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.message_outcomes.message_id is 'The service''s id of the message.';
comment on column intake_analytics.message_outcomes.patient is 'Pseudonym of the patient (intake_analytics.patients).';
comment on column intake_analytics.message_outcomes.form_id is 'The form that it asks for.';
comment on column intake_analytics.message_outcomes.form is 'Name of the form.';
comment on column intake_analytics.message_outcomes.packet_id is 'The packet that it asks for.';
comment on column intake_analytics.message_outcomes.packet is 'Name of the packet.';
comment on column intake_analytics.message_outcomes.document_id is 'The document that it asks for.';
comment on column intake_analytics.message_outcomes.channel is 'email, sms or other.';
comment on column intake_analytics.message_outcomes.status is 'pending, scheduled, sent, failed, cancelled, delivered, bounced, queued, canceled or other.';
comment on column intake_analytics.message_outcomes.created_at is 'When the message was created.';
comment on column intake_analytics.message_outcomes.scheduled_at is 'When it was to be sent.';
comment on column intake_analytics.message_outcomes.sent_at is 'When it was sent.';
comment on column intake_analytics.message_outcomes.is_sent is 'True when it was sent.';
comment on column intake_analytics.message_outcomes.response_id is 'The response that answers it.';
comment on column intake_analytics.message_outcomes.is_opened is 'True when that response was started.';
comment on column intake_analytics.message_outcomes.is_answered is 'True when that response was submitted.';
comment on column intake_analytics.message_outcomes.answered_at is 'When it was submitted.';
comment on column intake_analytics.message_outcomes.time_to_answer is 'From sending to submission.';
comment on column intake_analytics.message_outcomes.provider is 'Provider of the patient: the id (a UUID), or a pseudonym of any other text.';
