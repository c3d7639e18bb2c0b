create or replace view intake.patients_history with (security_barrier = true) as
select team_id, id, valid_from, valid_to, known_from, is_current, is_deleted,
  payload ->> 'external_id' as external_id,
  payload ->> 'first_name' as first_name,
  payload ->> 'last_name' as last_name,
  payload ->> 'email' as email,
  payload ->> 'phone_number' as phone_number,
  intake_raw.date_of(payload ->> 'date_birth') as date_birth,
  payload ->> 'sex_at_birth' as sex_at_birth,
  payload ->> 'provider' as provider,
  payload ->> 'address' as address,
  payload ->> 'address2' as address2,
  payload ->> 'city' as city,
  payload ->> 'state' as state,
  payload ->> 'zipcode' as zipcode,
  intake_raw.time_of(payload ->> 'created_at') as created_at,
  intake_raw.time_of(payload ->> 'updated_at') as updated_at,
  payload, version as _version, id as patient_id
from intake.record_states
where stream = 'patients';

comment on view intake.patients_history is 'Every state of every patient, as a slowly changing dimension.';
comment on column intake.patients_history.team_id is 'The team (intake.teams).';
comment on column intake.patients_history.id is 'The patient (intake.patients).';
comment on column intake.patients_history.valid_from is 'Start of the period in which this state was current, by the record''s own times; of the first state, when the record was created.';
comment on column intake.patients_history.valid_to is 'End of that period; null for the current state.';
comment on column intake.patients_history.known_from is 'From when on these values are known to be current. Between valid_from and then the patient existed, perhaps with others.';
comment on column intake.patients_history.is_current is 'True for the current state.';
comment on column intake.patients_history.is_deleted is 'True from when the service no longer had the patient.';
comment on column intake.patients_history.external_id is 'Id of the patient in another system.';
comment on column intake.patients_history.first_name is 'First name.';
comment on column intake.patients_history.last_name is 'Last name.';
comment on column intake.patients_history.email is 'E-mail address.';
comment on column intake.patients_history.phone_number is 'Phone number.';
comment on column intake.patients_history.date_birth is 'Date of birth; null if the service wrote no ISO date.';
comment on column intake.patients_history.sex_at_birth is 'Sex at birth.';
comment on column intake.patients_history.provider is 'Provider.';
comment on column intake.patients_history.address is 'First line of the address.';
comment on column intake.patients_history.address2 is 'Second line of the address.';
comment on column intake.patients_history.city is 'City.';
comment on column intake.patients_history.state is 'State.';
comment on column intake.patients_history.zipcode is 'ZIP code.';
comment on column intake.patients_history.created_at is 'When the service created the record.';
comment on column intake.patients_history.updated_at is 'When the service last changed it, in this state.';
comment on column intake.patients_history.payload is 'The whole record as the service sent it.';
comment on column intake.patients_history._version is 'Version of this state.';
comment on column intake.patients_history.patient_id is 'The same as id.';
