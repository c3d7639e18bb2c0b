-- Lets a stream whose worker is gone be settled with its last figures, and gives the right time left for a scan that is
-- continued or repeated. Also identifies each line of a log, so that it is stored once.

alter table intake_ops.run_progress
  add column pages_left bigint,
  add column counts     jsonb not null default '{}';
comment on column intake_ops.run_progress.pages is 'Pages read so far by the process that reads the stream now.';
comment on column intake_ops.run_progress.pages_left is 'Pages of the list that is being read that remain; null where the service does not count its records.';
comment on column intake_ops.run_progress.counts is 'What the report of the stream would count now, as in the result of a slice.';
comment on column intake_ops.run_progress.began_at is 'When the process that reads the stream now began with it, in the clock of the run.';

alter table intake_ops.run_log
  add column writer text,
  add column number integer,
  add constraint run_log_once unique (run_id, writer, number);
comment on column intake_ops.run_log.writer is 'The part of a process that stored the line; null for lines of earlier versions.';
comment on column intake_ops.run_log.number is 'Number of the line among those of its writer.';
