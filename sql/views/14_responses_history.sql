create or replace view intake.responses_history with (security_barrier = true) as
select team_id, id as response_id, valid_from, valid_to, is_current, is_deleted,
  coalesce(payload -> 'patient' ->> 'id', payload -> 'patient' ->> 'uid', payload ->> 'patient_id',
    case when jsonb_typeof(payload -> 'patient') = 'string' then payload ->> 'patient' end) as patient_id,
  coalesce(payload -> 'form' ->> 'id', payload -> 'form' ->> 'uid', payload ->> 'form_id',
    case when jsonb_typeof(payload -> 'form') = 'string' then payload ->> 'form' end) as form_id,
  payload ->> 'form_name' as form_name,
  payload ->> 'is_submitted' as is_submitted,
  payload ->> 'is_skipped' as is_skipped,
  payload ->> 'is_archived' as is_archived,
  payload ->> 'submitted_at' as submitted_at,
  payload -> 'answers' as answers,
  payload
from intake.record_states
where stream = 'responses';

comment on view intake.responses_history is 'Every state of every response, as a slowly changing dimension.';
comment on column intake.responses_history.team_id is 'The team (intake.teams).';
comment on column intake.responses_history.response_id is 'The response (intake.responses).';
comment on column intake.responses_history.valid_from is 'Start of the period in which this state was current.';
comment on column intake.responses_history.valid_to is 'End of that period; null for the current state.';
comment on column intake.responses_history.is_current is 'True for the current state.';
comment on column intake.responses_history.is_deleted is 'True from when the service no longer had the response.';
comment on column intake.responses_history.patient_id is 'The patient.';
comment on column intake.responses_history.form_id is 'The form.';
comment on column intake.responses_history.form_name is 'Name of the form, as the response said it.';
comment on column intake.responses_history.is_submitted is 'Whether it was submitted, as the service wrote it.';
comment on column intake.responses_history.is_skipped is 'Whether it was skipped, as the service wrote it.';
comment on column intake.responses_history.is_archived is 'Whether it was archived, as the service wrote it.';
comment on column intake.responses_history.submitted_at is 'When it was submitted, as the service wrote it.';
comment on column intake.responses_history.answers is 'The answers as the service sent them.';
comment on column intake.responses_history.payload is 'The whole record as the service sent it.';
