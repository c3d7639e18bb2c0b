-- Which deliveries did not arrive is kept, not searched for: the check reads deliveries that were listed since the last
-- round and those that are missing, however many others there are.

create table intake_ops.delivery_checks (
  team_id   smallint not null,
  config_id text not null,
  event_id  text not null,
  primary key (team_id, config_id, event_id)
);
comment on table intake_ops.delivery_checks is 'Events that the service lists and that were not found in the inbox so far, or were not looked for yet.';
comment on column intake_ops.delivery_checks.team_id is 'The team.';
comment on column intake_ops.delivery_checks.config_id is 'The webhook configuration.';
comment on column intake_ops.delivery_checks.event_id is 'The event.';

create table intake_ops.delivery_configs (
  team_id   smallint not null,
  config_id text not null,
  first_at  timestamptz not null,
  last_at   timestamptz not null,
  primary key (team_id, config_id)
);
comment on table intake_ops.delivery_configs is 'Webhook configurations whose events were found in the inbox: they send to this warehouse.';
comment on column intake_ops.delivery_configs.team_id is 'The team.';
comment on column intake_ops.delivery_configs.config_id is 'The webhook configuration.';
comment on column intake_ops.delivery_configs.first_at is 'When the first of these events was delivered.';
comment on column intake_ops.delivery_configs.last_at is 'When the last of these events was delivered.';

create index webhook_deliveries_of_event on intake.webhook_deliveries (team_id, webhook_config_id, event_id);

create function intake_raw.check_deliveries() returns trigger language plpgsql as $$
begin
  insert into intake_ops.delivery_checks (team_id, config_id, event_id)
  select distinct team_id, webhook_config_id, event_id from current
  where event_id is not null and webhook_config_id is not null and created_at > now() - interval '400 days'
  order by 1, 2, 3
  on conflict do nothing;
  return null;
end
$$;
comment on function intake_raw.check_deliveries() is 'Notes that the events of new deliveries have to be looked for in the inbox.';

create trigger check_inserted after insert on intake.webhook_deliveries
  referencing new table as current for each statement execute function intake_raw.check_deliveries();
create trigger check_updated after update on intake.webhook_deliveries
  referencing new table as current for each statement execute function intake_raw.check_deliveries();

insert into intake_ops.delivery_checks (team_id, config_id, event_id)
select distinct team_id, webhook_config_id, event_id from intake.webhook_deliveries
where event_id is not null and webhook_config_id is not null and created_at > now() - interval '400 days';
