create or replace view intake_safe_harbor.packet_progress with (security_barrier = true) as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_packet_groups where is_shown
), responses as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown and kind in ('packet')
), looked_up as (
  select p.*,
    (select items from known) ? intake_ops.group_item(p.team_id, 'packet', null, null, p.packet_id)::text
      and (select items from responses) ? intake_ops.group_item(p.team_id, 'packet', null, null, p.packet_id)::text as has_packet,
    (select items from known) ? intake_ops.group_item(p.team_id, 'activity', p.packet_id, null, p.activity)::text as has_activity,
    (select items from known) ? intake_ops.group_item(p.team_id, 'is_submitted', p.packet_id, null, p.is_submitted::text)::text as has_submitted,
    (select items from known) ? intake_ops.group_item(p.team_id, 'is_archived', p.packet_id, null, p.is_archived::text)::text as has_archived,
    (select items from known) ? intake_ops.group_item(p.team_id, 'created_year', p.packet_id, null, p.created_year::text)::text as has_created,
    (select items from known) ? intake_ops.group_item(p.team_id, 'submitted_year', p.packet_id, null, p.submitted_year::text)::text as has_ended
  from intake_raw.safe_packets p
)
select p.team_id,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'packet response', p.team_id, p.packet_response_id) as packet_response_id,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', p.team_id, p.patient) as patient,
  case when p.has_packet then intake_ops.research_code(k.inner_pad, k.outer_pad, 'packet', p.team_id, p.packet_id) end as packet_id,
  case when p.has_packet then p.packet end as packet,
  case when p.has_packet and p.has_activity and p.has_submitted then p.activity end as activity,
  case when p.has_packet and p.has_activity and p.has_submitted then p.is_submitted end as is_submitted,
  case when p.has_packet and p.has_archived then p.is_archived end as is_archived,
  case when p.has_packet and p.has_created then p.created_year end as created_year,
  case when p.has_packet and p.has_activity and p.has_submitted and p.has_ended then p.submitted_year end as submitted_year,
  case when p.has_packet and p.has_activity and p.has_submitted and p.has_created and p.has_ended then p.time_to_submit end as time_to_submit
from looked_up p
cross join intake_ops.analytics_key k;

comment on view intake_safe_harbor.packet_progress is 'One row per packet response; what fewer than eleven patients of a packet share is null.';
comment on column intake_safe_harbor.packet_progress.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.packet_progress.packet_response_id is 'Code of the packet response.';
comment on column intake_safe_harbor.packet_progress.patient is 'Code of the patient (intake_safe_harbor.patients).';
comment on column intake_safe_harbor.packet_progress.packet_id is 'Code of the packet.';
comment on column intake_safe_harbor.packet_progress.packet is 'Name of the packet.';
comment on column intake_safe_harbor.packet_progress.activity is 'setup, progress or submitted.';
comment on column intake_safe_harbor.packet_progress.is_submitted is 'True when all of it is submitted.';
comment on column intake_safe_harbor.packet_progress.is_archived is 'True when it is archived.';
comment on column intake_safe_harbor.packet_progress.created_year is 'Year in which it was created.';
comment on column intake_safe_harbor.packet_progress.submitted_year is 'Year in which it was submitted.';
comment on column intake_safe_harbor.packet_progress.time_to_submit is 'From created to submitted, in whole hours up to 30 days; null where the years differ.';
