create or replace view intake_analytics.responses with (security_barrier = true) as
select r.team_id, r.id as response_id,
  case when r.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.patient_id) end as patient,
  r.form_id, f.name as form, r.packet_id, pk.name as packet, r.document_id, d.name as document,
  r.is_submitted, r.is_skipped, r.is_archived, r.created_at, r.submitted_at,
  case when r.submitted_at >= r.created_at then r.submitted_at - r.created_at end as time_to_submit,
  intake_ops.provider(k.inner_pad, k.outer_pad, r.team_id, pt.provider) as provider
from intake.responses r
cross join intake_ops.analytics_key k
left join intake.forms f on f.team_id = r.team_id and f.id = r.form_id
left join intake.packets pk on pk.team_id = r.team_id and pk.id = r.packet_id
left join intake.documents d on d.team_id = r.team_id and d.id = r.document_id
left join intake.patients pt on pt.team_id = r.team_id and pt.id = r.patient_id
where r._deleted_at is null
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.responses is 'One row per response: who (by pseudonym) was asked what, when, and how it ended.';
comment on column intake_analytics.responses.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.responses.response_id is 'The service''s id of the response.';
comment on column intake_analytics.responses.patient is 'Pseudonym of the patient (intake_analytics.patients).';
comment on column intake_analytics.responses.form_id is 'The form.';
comment on column intake_analytics.responses.form is 'Name of the form as it is now.';
comment on column intake_analytics.responses.packet_id is 'The packet it belongs to, if any.';
comment on column intake_analytics.responses.packet is 'Name of the packet.';
comment on column intake_analytics.responses.document_id is 'The document it belongs to, if any.';
comment on column intake_analytics.responses.document is 'Name of the document.';
comment on column intake_analytics.responses.is_submitted is 'True when it was submitted; a skipped one is submitted with its packet.';
comment on column intake_analytics.responses.is_skipped is 'True when the packet''s logic left it out.';
comment on column intake_analytics.responses.is_archived is 'True when staff archived it.';
comment on column intake_analytics.responses.created_at is 'When the patient was asked.';
comment on column intake_analytics.responses.submitted_at is 'When it was submitted.';
comment on column intake_analytics.responses.time_to_submit is 'From being asked to submission.';
comment on column intake_analytics.responses.provider is 'Provider of the patient: the id (a UUID), or a pseudonym of any other text.';
