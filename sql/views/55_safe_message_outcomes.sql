-- Without the response that answered: it would reveal the form of a message that hides it, and the other way round. A status
-- says whether a message was sent or opened: where a target has a rare one, all are hidden, so that these cannot tell it.
create or replace view intake_safe_harbor.message_outcomes with (security_barrier = true) as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items
  from (select item, is_shown and (kind <> 'status' or bool_and(is_shown) over (partition by kind, set)) as is_shown from intake_raw.safe_message_groups) own
  where is_shown
), responses as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown and kind in ('form', 'packet', 'document')
), looked_up as (
  select m.*,
    (select items from known) ? intake_ops.group_item(m.team_id, 'target', null, null, m.target_id)::text and (
      (select items from responses) ? intake_ops.group_item(m.team_id, 'form', null, null, m.target_id)::text
      or (select items from responses) ? intake_ops.group_item(m.team_id, 'packet', null, null, m.target_id)::text
      or (select items from responses) ? intake_ops.group_item(m.team_id, 'document', null, null, m.target_id)::text
    ) as has_target,
    (select items from known) ? intake_ops.group_item(m.team_id, 'channel', m.target_id, null, m.channel)::text as has_channel,
    (select items from known) ? intake_ops.group_item(m.team_id, 'status', m.target_id, null, m.status)::text as has_status,
    (select items from known) ? intake_ops.group_item(m.team_id, 'is_sent', m.target_id, null, m.is_sent::text)::text as has_sent,
    (select items from known) ? intake_ops.group_item(m.team_id, 'is_opened', m.target_id, null, m.is_opened::text)::text as has_opened,
    (select items from known) ? intake_ops.group_item(m.team_id, 'is_answered', m.target_id, null, m.is_answered::text)::text as has_answered,
    (select items from known) ? intake_ops.group_item(m.team_id, 'sent_year', m.target_id, null, m.sent_year::text)::text as has_year
  from intake_raw.safe_messages m
)
select m.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'message', m.team_id, m.message_id) as message_id,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', m.team_id, m.patient) as patient,
  case when m.has_target then intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', m.team_id, m.form_id) end as form_id,
  case when m.has_target then m.form end as form,
  case when m.has_target then intake_ops.research_code(k.inner_pad, k.outer_pad, 'packet', m.team_id, m.packet_id) end as packet_id,
  case when m.has_target then m.packet end as packet,
  case when m.has_target and m.has_channel then m.channel end as channel,
  case when m.has_target and m.has_status then m.status end as status,
  case when m.has_target and m.has_sent then m.is_sent end as is_sent,
  case when m.has_target and m.has_opened then m.is_opened end as is_opened,
  case when m.has_target and m.has_answered then m.is_answered end as is_answered,
  case when m.has_target and m.has_year then m.sent_year end as sent_year,
  case when m.has_target and m.has_year and m.has_answered then m.time_to_answer end as time_to_answer
from looked_up m
cross join intake_ops.analytics_key k;

comment on view intake_safe_harbor.message_outcomes is 'One row per message that is not deleted; what fewer than eleven patients of a form or packet share is null.';
comment on column intake_safe_harbor.message_outcomes.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.message_outcomes.message_id is 'Code of the message.';
comment on column intake_safe_harbor.message_outcomes.patient is 'Code of the patient (intake_safe_harbor.patients).';
comment on column intake_safe_harbor.message_outcomes.form_id is 'Code of the form it asks for.';
comment on column intake_safe_harbor.message_outcomes.form is 'Name of that form.';
comment on column intake_safe_harbor.message_outcomes.packet_id is 'Code of the packet it asks for.';
comment on column intake_safe_harbor.message_outcomes.packet is 'Name of that packet.';
comment on column intake_safe_harbor.message_outcomes.channel is 'email, sms or other.';
comment on column intake_safe_harbor.message_outcomes.status is 'Status of the delivery.';
comment on column intake_safe_harbor.message_outcomes.is_sent is 'True when it was sent.';
comment on column intake_safe_harbor.message_outcomes.is_opened is 'True when the patient began to answer.';
comment on column intake_safe_harbor.message_outcomes.is_answered is 'True when the patient submitted what it asks for.';
comment on column intake_safe_harbor.message_outcomes.sent_year is 'Year in which it was sent.';
comment on column intake_safe_harbor.message_outcomes.time_to_answer is 'From sent to submitted, in whole hours up to 30 days; null where the years differ.';
