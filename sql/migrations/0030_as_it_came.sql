-- What jsonb does not give back of a payload, and what was found before it was mapped: replay makes from these the very
-- rows that the first load made.

alter table intake_raw.records
  add column as_it_came text,
  add column problems jsonb;
comment on column intake_raw.records.as_it_came is 'The payload''s JSON text, where rows show the order of its keys or digits of its numbers that jsonb writes otherwise; null elsewhere.';
comment on column intake_raw.records.problems is 'What was found in the payload before it was mapped: parts that Postgres cannot hold, a stamp from the future. An array of path, reason and original, or null.';
