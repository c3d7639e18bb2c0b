-- The key that signs receipts of erasures and verifications.

create table intake_ops.receipt_key (
  is_only    boolean primary key default true check (is_only),
  seed       bytea not null check (length(seed) = 32),
  created_at timestamptz not null default now()
);
comment on table intake_ops.receipt_key is 'The one key of this installation that signs receipts of erasures and verifications.';
comment on column intake_ops.receipt_key.is_only is 'True: there is one row.';
comment on column intake_ops.receipt_key.seed is 'The private key of Ed25519, generated once.';
comment on column intake_ops.receipt_key.created_at is 'When it was generated.';
revoke all on intake_ops.receipt_key from public;

insert into intake_ops.receipt_key (seed)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));
