-- A conflict of two states shows in their own stamps: the one that wins by version was updated before the one that loses.
-- To see it, the current state's stamp is stored beside its version. Rows that were stored before have none, and are
-- compared by their versions alone until they change.

alter table intake_raw.records add column updated_at timestamptz;
comment on column intake_raw.records.updated_at is 'The record''s own updated_at, where it has one that counts; of a deleted record, when it was gone.';
