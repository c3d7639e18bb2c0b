-- Requests that the service failed are counted apart from answers: a record is given up, and a stored state overruled,
-- only after answers. Rows from before keep what they counted as answers.

alter table intake_ops.refetches add column failures int not null default 0;
comment on column intake_ops.refetches.failures is 'Requests that the service failed; the next one waits longer.';
comment on column intake_ops.refetches.attempts is 'Answers that did not settle it.';
