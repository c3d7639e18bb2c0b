-- An event that was removed with a patient was received: without a note it would be missing for ever from what the service
-- lists as delivered. The note is a hash of the event's id, which says nothing about the patient.

create table intake_ops.removed_events (
  team_id    smallint not null,
  event_hash bytea not null,
  removed_at timestamptz not null default now(),
  primary key (team_id, event_hash)
);
comment on table intake_ops.removed_events is 'Events that were removed from the inbox because they are about an erased patient: they do not count as missing.';
comment on column intake_ops.removed_events.team_id is 'The team (intake.teams).';
comment on column intake_ops.removed_events.event_hash is 'SHA-256 of the id of the event.';
comment on column intake_ops.removed_events.removed_at is 'When the event was removed; the row stays for 400 days.';

-- Expired events leave with their partition, and those of a removed team too: this sees only events that erase removes.
create function intake_raw.note_removed_events() returns trigger language plpgsql as $$
begin
  delete from intake_ops.removed_events
  where removed_at < now() - interval '400 days' and team_id in (select team_id from gone);
  insert into intake_ops.removed_events (team_id, event_hash)
  select distinct team_id, sha256(convert_to(event_id, 'UTF8')) from gone order by 1, 2
  on conflict do nothing;
  return null;
end
$$;
comment on function intake_raw.note_removed_events() is 'Notes events that are removed from the inbox.';

create trigger note_removed after delete on intake_raw.inbox
  referencing old table as gone for each statement execute function intake_raw.note_removed_events();
