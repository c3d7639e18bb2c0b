-- One hash of the content hashes of a stream's records, in the order of their ids, for the receipt of a verification.

alter table intake_ops.verifications add column source_content_hash text, add column warehouse_content_hash text;
comment on column intake_ops.verifications.source_content_hash is 'SHA-256 of the content hashes of the records that a fresh load would write, in the order of their ids; docs/verify.md says how.';
comment on column intake_ops.verifications.warehouse_content_hash is 'The same of the stored records.';
