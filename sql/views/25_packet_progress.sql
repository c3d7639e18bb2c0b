-- Webhooks report which responses belong to one packet response. Without that, the nth response of a patient to each form
-- of the packet counts as part of the nth packet response.
create or replace view intake_analytics.packet_progress with (security_barrier = true) as
with reported as (
  select pr.team_id, pr.id as packet_response_id, pr.packet_id, pr.is_submitted, pr.is_archived, pr.activity,
    count(m.response_id) as responses,
    count(*) filter (where r.is_submitted and r.is_skipped is not true) as submitted,
    count(*) filter (where r.is_skipped) as skipped,
    min(r.patient_id) as patient_id,
    pr.created_at, pr.submitted_at
  from intake.packet_responses pr
  left join intake.packet_response_members m on m.team_id = pr.team_id and m.packet_response_id = pr.id
  left join intake.responses r on r.team_id = m.team_id and r.id = m.response_id
  where pr._deleted_at is null
  group by pr.team_id, pr.id
), numbered as (
  select r.*, row_number() over (
      partition by r.team_id, r.patient_id, r.packet_id, r.form_id order by r.created_at, r.id
    ) as round
  from intake.responses r
  where r._deleted_at is null and r.packet_id is not null and not exists (
    select from intake.packet_response_members m where m.team_id = r.team_id and m.response_id = r.id
  )
), counted as (
  select team_id, packet_id, patient_id,
    bool_and(is_skipped is true or is_submitted is true) and bool_or(is_submitted is true and is_skipped is not true) as is_done,
    bool_and(coalesce(is_archived, false)) as is_archived,
    count(*) as responses,
    count(*) filter (where is_submitted and is_skipped is not true) as submitted,
    count(*) filter (where is_skipped) as skipped,
    min(created_at) as created_at, max(submitted_at) filter (where is_skipped is not true) as submitted_at
  from numbered
  group by team_id, patient_id, packet_id, round
), found as (
  select team_id, null::text as packet_response_id, packet_id,
    is_done as is_submitted, is_archived,
    case when is_done then 'submitted' when submitted > 0 then 'progress' else 'setup' end as activity,
    responses, submitted, skipped, patient_id, created_at, case when is_done then submitted_at end as submitted_at
  from counted
), whole as (
  select team_id, packet_response_id, packet_id, is_submitted, is_archived, activity, responses, submitted, skipped,
    patient_id, created_at, submitted_at from reported
  union all
  select team_id, packet_response_id, packet_id, is_submitted, is_archived, activity, responses, submitted, skipped,
    patient_id, created_at, submitted_at from found
)
select w.team_id, w.packet_response_id,
  case when w.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, w.team_id, w.patient_id) end as patient,
  w.packet_id, p.name as packet, w.activity, w.is_submitted, w.is_archived,
  w.responses, w.submitted, w.skipped, w.created_at, w.submitted_at,
  case when w.submitted_at >= w.created_at then w.submitted_at - w.created_at end as time_to_submit
from whole w
cross join intake_ops.analytics_key k
left join intake.packets p on p.team_id = w.team_id and p.id = w.packet_id
where w.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.packet_progress is 'One row per packet response: how far the patient came. Derived from the responses where no webhook reported it.';
comment on column intake_analytics.packet_progress.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.packet_progress.packet_response_id is 'The service''s id of the packet response; null where no webhook reported it.';
comment on column intake_analytics.packet_progress.patient is 'Pseudonym of the patient (intake_analytics.patients).';
comment on column intake_analytics.packet_progress.packet_id is 'The packet.';
comment on column intake_analytics.packet_progress.packet is 'Name of the packet.';
comment on column intake_analytics.packet_progress.activity is 'setup, progress or submitted.';
comment on column intake_analytics.packet_progress.is_submitted is 'True when the whole packet was submitted.';
comment on column intake_analytics.packet_progress.is_archived is 'True when it was archived.';
comment on column intake_analytics.packet_progress.responses is 'Responses that belong to it.';
comment on column intake_analytics.packet_progress.submitted is 'Those that were filled in and submitted.';
comment on column intake_analytics.packet_progress.skipped is 'Those that the packet''s logic left out.';
comment on column intake_analytics.packet_progress.created_at is 'When the patient was asked.';
comment on column intake_analytics.packet_progress.submitted_at is 'When the whole packet was submitted.';
comment on column intake_analytics.packet_progress.time_to_submit is 'From being asked to submission.';
