-- Patients who were erased on request. Nothing of them stays but keyed hashes, by which what the service tells of them
-- later is known and skipped.

create table intake_ops.erasure_key (
  is_only boolean primary key default true check (is_only),
  key     bytea not null check (length(key) = 32),
  made_at timestamptz not null default now()
);
comment on table intake_ops.erasure_key is 'The one key of the hashes in intake_ops.erasures, made once.';
comment on column intake_ops.erasure_key.is_only is 'True: there is one row.';
comment on column intake_ops.erasure_key.key is 'The key of HMAC-SHA256.';
comment on column intake_ops.erasure_key.made_at is 'When it was made.';
revoke all on intake_ops.erasure_key from public;

insert into intake_ops.erasure_key (key)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

create table intake_ops.erasures (
  hash            bytea primary key,
  patient_hash    bytea not null,
  team_id         smallint not null,
  erased_at       timestamptz not null default now(),
  skipped         bigint not null default 0,
  last_skipped_at timestamptz
);
create index erasures_of_patient on intake_ops.erasures (patient_hash);
comment on table intake_ops.erasures is 'Erased patients, and the records that were theirs: whatever comes of them later is skipped.';
comment on column intake_ops.erasures.hash is 'HMAC-SHA256 of team, stream and id.';
comment on column intake_ops.erasures.patient_hash is 'That of the patient whose record it was; the patient''s own row holds its own.';
comment on column intake_ops.erasures.team_id is 'The team.';
comment on column intake_ops.erasures.erased_at is 'When it was erased, or first met after that.';
comment on column intake_ops.erasures.skipped is 'How often something of it came and was skipped; of a patient, rows of exports too.';
comment on column intake_ops.erasures.last_skipped_at is 'When that last happened.';

-- A statement of its own within the function: it has to see what was committed while the lock was waited for.
create function intake_ops.hold_erasures() returns bytea language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(7204314001);
  return (select key from intake_ops.erasure_key where exists (select from intake_ops.erasures));
end
$$;
comment on function intake_ops.hold_erasures() is 'Keeps erasures from being noted until the transaction ends; the key of their hashes, or null where there are none.';
revoke all on function intake_ops.hold_erasures() from public;
