-- The states of each record in order, without a copy of the data: superseded states come from record_history, the newest
-- from records. A state is valid from the time that the record gives itself: its updated_at, where that is later than that of
-- the state before; else from when it was seen. The first state is valid from created_at, because the record existed then,
-- and known_from says from when on the values are known.
create or replace view intake.record_states with (security_barrier = true) as
with states as (
  select team_id, stream, id, version, observed_at, deleted, origin, payload, false as is_newest from intake_raw.record_history
  union all
  select team_id, stream, id, version, observed_at, deleted, origin, payload, true from intake_raw.records
), dated as (
  select states.*, intake_raw.time_of(payload ->> 'created_at') as created_at,
    intake_raw.time_of(payload ->> 'updated_at') as updated_at
  from states
  where team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[])
), compared as (
  select dated.*, row_number() over newer = 1 as is_first,
    case
      when updated_at <= version
        and updated_at > coalesce(lag(updated_at) over newer, lag(version) over newer, '-infinity') then updated_at
      else version
    end as since
  from dated
  window newer as (partition by team_id, stream, id order by is_newest, version, deleted, observed_at)
), known as (
  select compared.*, max(since) over (newer rows unbounded preceding) as known_from
  from compared
  window newer as (partition by team_id, stream, id order by is_newest, version, deleted, observed_at)
)
select team_id, stream, id,
  case when is_first then least(created_at, known_from) else known_from end as valid_from,
  lead(known_from) over newer as valid_to,
  is_newest as is_current,
  deleted as is_deleted,
  origin, payload, known_from, version
from known
window newer as (partition by team_id, stream, id order by is_newest, version, deleted, observed_at);

comment on view intake.record_states is 'Every state of every record, as a slowly changing dimension.';
comment on column intake.record_states.team_id is 'The team (intake.teams).';
comment on column intake.record_states.stream is 'The stream: patients, forms, responses and so on.';
comment on column intake.record_states.id is 'The service''s id of the record.';
comment on column intake.record_states.valid_from is 'Start of the period in which this state was current, by the record''s own times; of the first state, when the record was created.';
comment on column intake.record_states.valid_to is 'End of that period; null for the current state.';
comment on column intake.record_states.is_current is 'True for the current state.';
comment on column intake.record_states.is_deleted is 'True from when the service no longer had the record.';
comment on column intake.record_states.origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.record_states.payload is 'The record as the service sent it; null when deleted.';
comment on column intake.record_states.known_from is 'From when on these values are known to be current. Between valid_from and then the record existed, perhaps with others.';
comment on column intake.record_states.version is 'Version of this state (_version): when it was updated, or seen if that was later.';
