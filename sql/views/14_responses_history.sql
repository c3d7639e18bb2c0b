create or replace view intake.responses_history with (security_barrier = true) as
select team_id, id, valid_from, valid_to, known_from, is_current, is_deleted,
  coalesce(payload -> 'patient' ->> 'id', payload -> 'patient' ->> 'uid', payload ->> 'patient_id',
    case when jsonb_typeof(payload -> 'patient') = 'string' then payload ->> 'patient' end) as patient_id,
  coalesce(payload -> 'form' ->> 'id', payload -> 'form' ->> 'uid', payload ->> 'form_id',
    case when jsonb_typeof(payload -> 'form') = 'string' then payload ->> 'form' end) as form_id,
  payload ->> 'form_name' as form_name,
  coalesce(payload -> 'packet' ->> 'id', payload -> 'packet' ->> 'uid', payload ->> 'packet_id',
    case when jsonb_typeof(payload -> 'packet') = 'string' then payload ->> 'packet' end) as packet_id,
  coalesce(payload -> 'document' ->> 'id', payload -> 'document' ->> 'uid', payload ->> 'document_id',
    case when jsonb_typeof(payload -> 'document') = 'string' then payload ->> 'document' end) as document_id,
  case payload ->> 'is_submitted' when 'true' then true when 'false' then false end as is_submitted,
  case payload ->> 'is_skipped' when 'true' then true when 'false' then false end as is_skipped,
  case payload ->> 'is_archived' when 'true' then true when 'false' then false end as is_archived,
  intake_raw.time_of(payload ->> 'submitted_at') as submitted_at,
  intake_raw.time_of(payload ->> 'created_at') as created_at,
  intake_raw.time_of(payload ->> 'updated_at') as updated_at,
  payload -> 'answers' as answers,
  payload, version as _version, id as response_id
from intake.record_states
where stream = 'responses';

comment on view intake.responses_history is 'Every state of every response, as a slowly changing dimension.';
comment on column intake.responses_history.team_id is 'The team (intake.teams).';
comment on column intake.responses_history.id is 'The response (intake.responses).';
comment on column intake.responses_history.valid_from is 'Start of the period in which this state was current, by the record''s own times; of the first state, when the record was created.';
comment on column intake.responses_history.valid_to is 'End of that period; null for the current state.';
comment on column intake.responses_history.known_from is 'From when on these values are known to be current. Between valid_from and then the response existed, perhaps with others.';
comment on column intake.responses_history.is_current is 'True for the current state.';
comment on column intake.responses_history.is_deleted is 'True from when the service no longer had the response.';
comment on column intake.responses_history.patient_id is 'The patient.';
comment on column intake.responses_history.form_id is 'The form.';
comment on column intake.responses_history.form_name is 'Name of the form, as the response said it.';
comment on column intake.responses_history.packet_id is 'The packet.';
comment on column intake.responses_history.document_id is 'The document.';
comment on column intake.responses_history.is_submitted is 'True when it was submitted.';
comment on column intake.responses_history.is_skipped is 'True when the logic of a packet left it out.';
comment on column intake.responses_history.is_archived is 'True when staff archived it.';
comment on column intake.responses_history.submitted_at is 'When it was submitted.';
comment on column intake.responses_history.created_at is 'When the service created the record.';
comment on column intake.responses_history.updated_at is 'When the service last changed it, in this state.';
comment on column intake.responses_history.answers is 'The answers as the service sent them.';
comment on column intake.responses_history.payload is 'The whole record as the service sent it.';
comment on column intake.responses_history._version is 'Version of this state.';
comment on column intake.responses_history.response_id is 'The same as id.';
