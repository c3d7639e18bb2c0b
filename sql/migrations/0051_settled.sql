-- When a dead letter came to need nobody, so that what it held is kept no longer than an event is; and what a run skipped
-- because it was of an erased patient.

alter table intake_ops.dead_letters add column settled_at timestamptz;
comment on column intake_ops.dead_letters.settled_at is 'When it was resolved, retried or discarded; what it held is removed INTAKE_INBOX_DAYS later.';
update intake_ops.dead_letters set settled_at = last_seen_at where status <> 'waiting';
create index dead_letters_settled on intake_ops.dead_letters (settled_at) where settled_at is not null;
comment on table intake_raw.set_aside is 'What each dead letter held, until INTAKE_INBOX_DAYS after it was settled.';

alter table intake_ops.run_streams add column erased bigint not null default 0;
comment on column intake_ops.run_streams.erased is 'Records skipped because they are of an erased patient.';
