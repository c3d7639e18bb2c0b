-- A run that somebody cancels from another process.

alter table intake_ops.runs add column canceled_by text;
comment on column intake_ops.runs.canceled_by is 'The login that canceled the run; null for a run that nobody canceled.';
