-- Signature secrets of webhook configurations that were created here (specification, section 2.6): the service shows
-- each once and never again.

create table intake_ops.webhook_secrets (
  team_id    smallint not null,
  config_id  text not null,
  secret     bytea not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz,
  primary key (team_id, config_id)
);
comment on table intake_ops.webhook_secrets is 'Signature secrets of webhook configurations, encrypted; for the loader only.';
comment on column intake_ops.webhook_secrets.team_id is 'The team.';
comment on column intake_ops.webhook_secrets.config_id is 'The service''s id of the webhook configuration.';
comment on column intake_ops.webhook_secrets.secret is 'AES-256-GCM under INTAKE_ENCRYPTION_KEY: version, nonce, tag, ciphertext; bound to team and configuration.';
comment on column intake_ops.webhook_secrets.created_at is 'When the secret was stored.';
comment on column intake_ops.webhook_secrets.retired_at is 'When the configuration was deleted here; null while it is in use.';

-- The roles are made and granted by sql/roles.sql, which gives this schema to intake_loader alone; nor may anybody
-- else read this table where default privileges are wider.
revoke all on intake_ops.webhook_secrets from public;
