-- Slices of verifications and replays. A comparison writes no stream, so it reserves none.

alter table intake_ops.slices add column reserves boolean not null default true;
comment on column intake_ops.slices.reserves is 'Whether no other run of the stream begins until the slice is settled, and no batch of another is loaded. A comparison without repair reserves nothing.';

comment on column intake_ops.slices.spec is 'What to do, with the version of its form: kind stream (window, allow_mass_delete), verify (repair, deep) or replay; close for the slice that closes a backfill, and the kind of the others for the one that closes them.';
comment on column intake_ops.slices.result is 'The report of the stream: counts, status and note, no value of a record.';

drop index intake_ops.slices_unfinished;
create unique index slices_unfinished on intake_ops.slices (team_id, stream)
  where state in ('pending', 'claimed') and team_id is not null and reserves;
