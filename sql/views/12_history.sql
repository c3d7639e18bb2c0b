-- The states of each record in order, without a copy of the data: superseded states come from record_history, the newest
-- from records. A state is valid from its version until the next state's version.
create or replace view intake.record_states with (security_barrier = true) as
with states as (
  select team_id, stream, id, version, observed_at, deleted, origin, payload, false as is_newest from intake_raw.record_history
  union all
  select team_id, stream, id, version, observed_at, deleted, origin, payload, true from intake_raw.records
)
select team_id, stream, id,
  version as valid_from,
  lead(version) over newer as valid_to,
  is_newest as is_current,
  deleted as is_deleted,
  origin, payload
from states
where team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[])
window newer as (partition by team_id, stream, id order by is_newest, version, deleted, observed_at);

comment on view intake.record_states is 'Every state of every record, as a slowly changing dimension.';
comment on column intake.record_states.team_id is 'The team (intake.teams).';
comment on column intake.record_states.stream is 'The stream: patients, forms, responses and so on.';
comment on column intake.record_states.id is 'The service''s id of the record.';
comment on column intake.record_states.valid_from is 'Start of the period in which this state was current.';
comment on column intake.record_states.valid_to is 'End of that period; null for the current state.';
comment on column intake.record_states.is_current is 'True for the current state.';
comment on column intake.record_states.is_deleted is 'True from when the service no longer had the record.';
comment on column intake.record_states.origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.record_states.payload is 'The record as the service sent it; null when deleted.';
