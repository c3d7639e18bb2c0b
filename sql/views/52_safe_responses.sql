-- What belongs to a form that is hidden is hidden with it: else it would distinguish hidden forms. The items that are shown are
-- looked up in one JSON object, which costs the same however wrong the planner is about their number. A year of submission says
-- that there was one: where few are open, both are hidden.
create or replace view intake_safe_harbor.responses with (security_barrier = true) as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown
), looked_up as (
  select r.*,
    r.form_id is null or (select items from known) ? r.form_item::text as has_form,
    (select items from known) ? intake_ops.group_item(r.team_id, 'packet', null, null, r.packet_id)::text as has_packet,
    (select items from known) ? intake_ops.group_item(r.team_id, 'document', null, null, r.document_id)::text as has_document,
    (select items from known) ? hashtextextended(r.is_submitted::text, r.form_item # 1)::text as has_submitted,
    (select items from known) ? hashtextextended(r.is_skipped::text, r.form_item # 2)::text as has_skipped,
    (select items from known) ? hashtextextended(r.is_archived::text, r.form_item # 3)::text as has_archived,
    (select items from known) ? hashtextextended(r.created_year::text, r.form_item # 4)::text as has_created,
    (select items from known) ? hashtextextended(r.submitted_year::text, r.form_item # 5)::text as has_ended,
    (select items from known) ? hashtextextended(r.visit::text, r.form_item # 6)::text as has_visit
  from intake_raw.safe_responses r
)
select r.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'response', r.team_id, r.response_id) as response_id,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', r.team_id, r.patient) as patient,
  case when r.has_form then intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', r.team_id, r.form_id) end as form_id,
  case when r.has_form then r.form end as form,
  case when r.has_form and r.has_packet then intake_ops.research_code(k.inner_pad, k.outer_pad, 'packet', r.team_id, r.packet_id) end as packet_id,
  case when r.has_form and r.has_packet then r.packet end as packet,
  case when r.has_form and r.has_document then intake_ops.research_code(k.inner_pad, k.outer_pad, 'document', r.team_id, r.document_id) end as document_id,
  case when r.has_form and r.has_document then r.document end as document,
  case when r.has_form and r.has_submitted then r.is_submitted end as is_submitted,
  case when r.has_form and r.has_skipped then r.is_skipped end as is_skipped,
  case when r.has_form and r.has_archived then r.is_archived end as is_archived,
  case when r.has_form and r.has_created then r.created_year end as created_year,
  case when r.has_form and r.has_submitted and r.has_ended then r.submitted_year end as submitted_year,
  case when r.has_form and r.has_created and r.has_submitted and r.has_ended then r.time_to_submit end as time_to_submit,
  case when r.has_form and r.has_visit then r.visit end as visit
from looked_up r
cross join intake_ops.analytics_key k;

comment on view intake_safe_harbor.responses is 'One row per response that is not deleted; what fewer than eleven patients of a form share is null.';
comment on column intake_safe_harbor.responses.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.responses.response_id is 'Code of the response.';
comment on column intake_safe_harbor.responses.patient is 'Code of the patient (intake_safe_harbor.patients).';
comment on column intake_safe_harbor.responses.form_id is 'Code of the form; null for forms that fewer than eleven patients have, and those hidden with them.';
comment on column intake_safe_harbor.responses.form is 'Name of the form as it is now.';
comment on column intake_safe_harbor.responses.packet_id is 'Code of the packet.';
comment on column intake_safe_harbor.responses.packet is 'Name of the packet.';
comment on column intake_safe_harbor.responses.document_id is 'Code of the document.';
comment on column intake_safe_harbor.responses.document is 'Name of the document.';
comment on column intake_safe_harbor.responses.is_submitted is 'True when it was submitted.';
comment on column intake_safe_harbor.responses.is_skipped is 'True when the logic of a packet left it out.';
comment on column intake_safe_harbor.responses.is_archived is 'True when staff archived it.';
comment on column intake_safe_harbor.responses.created_year is 'Year in which the patient was asked.';
comment on column intake_safe_harbor.responses.submitted_year is 'Year in which it was submitted.';
comment on column intake_safe_harbor.responses.time_to_submit is 'From asked to submitted, in whole hours up to 30 days; null where the years differ.';
comment on column intake_safe_harbor.responses.visit is 'Place among the responses of the patient to the form, from 1: the submitted ones in the order of time, then the others.';
