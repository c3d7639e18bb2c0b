-- The roles of a warehouse and what each may do. Run at every migrate, so that a table that came later is covered and
-- a role that could not be created then is granted once it exists. Roles belong to the whole server: another database
-- may create them at the same moment.

do $$
declare
  role_name text;
begin
  foreach role_name in array array['intake_loader', 'intake_analyst', 'intake_clinical', 'intake_researcher'] loop
    if not exists (select from pg_roles where rolname = role_name) then
      begin
        execute format('create role %I nologin', role_name);
      exception
        when duplicate_object or unique_violation then null;
        -- Younger than the others: where somebody else made those, their grants do not wait for it.
        when insufficient_privilege then
          if role_name <> 'intake_researcher' then
            raise;
          end if;
      end;
    end if;
  end loop;
end
$$;

grant usage on schema intake, intake_raw, intake_ops, intake_analytics to intake_loader;
grant select, insert, update, delete, truncate on all tables in schema intake, intake_raw, intake_ops to intake_loader;
grant usage, select on all sequences in schema intake, intake_raw, intake_ops to intake_loader;
grant execute on all functions in schema intake_raw, intake_ops to intake_loader;
grant usage on schema intake_exports, intake_forms, intake_safe_harbor to intake_loader;
grant select on all tables in schema intake_analytics, intake_exports, intake_forms, intake_safe_harbor to intake_loader;

grant usage on schema intake_analytics, intake_exports, intake_forms to intake_analyst;
grant select on all tables in schema intake_analytics, intake_exports, intake_forms to intake_analyst;

grant usage on schema intake, intake_analytics, intake_exports, intake_forms to intake_clinical;
grant select on all tables in schema intake, intake_analytics, intake_exports, intake_forms to intake_clinical;
grant usage on schema intake_fhir to intake_clinical;
grant select on all tables in schema intake_fhir to intake_clinical;

-- The key is for views, which run as their owner; the loader writes it, when it is configured.
grant execute on function intake_ops.teams_of(text) to intake_loader, intake_analyst, intake_clinical;
grant execute on function intake_ops.hmac_pad(bytea, int) to intake_loader;
grant select on intake.questions to intake_loader;

do $$
begin
  if exists (select from pg_roles where rolname = 'intake_researcher') then
    grant usage on schema intake_safe_harbor to intake_researcher;
    grant select on all tables in schema intake_safe_harbor to intake_researcher;
    grant execute on function intake_ops.teams_of(text) to intake_researcher;
  end if;
end
$$;

-- Partitions (sql/partitions.sql) have no policies, so that only the loader may read them by their own names.
do $$
begin
  if exists (select from pg_namespace where nspname = 'intake_partitions') then
    grant usage on schema intake_partitions to intake_loader;
    grant select, delete on all tables in schema intake_partitions to intake_loader;
  end if;
end
$$;

-- Settings of a role are not those of its members: intake-sync access grant gives each login the same.
do $$
begin
  execute format('alter role intake_analyst in database %I set search_path = intake_analytics, public', current_database());
  if exists (select from pg_roles where rolname = 'intake_researcher') then
    execute format(
      'alter role intake_researcher in database %I set search_path = intake_safe_harbor, public', current_database());
  end if;
  execute format(
    'alter role intake_clinical in database %I set search_path = intake, intake_analytics, public', current_database());
exception
  when insufficient_privilege then null;
end
$$;

-- Who may connect to a database that is the warehouse's own: these roles, not everybody. Its owner decides; where other
-- schemas live in it, their users keep what they have.
do $$
declare
  role_name text;
begin
  if not pg_has_role(current_user, (select datdba from pg_database where datname = current_database()), 'usage')
    or exists (
      select from pg_class c
      where c.relkind in ('r', 'p', 'v', 'm', 'f')
        and c.relnamespace not in (
          select oid from pg_namespace where nspname ~ '^(intake(_.*)?|pg_.*|information_schema|graphile_worker)$')
        and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
    ) then
    return;
  end if;
  for role_name in
    select rolname from pg_roles
    where rolname in ('intake_loader', 'intake_analyst', 'intake_clinical', 'intake_researcher')
  loop
    execute format('grant connect on database %I to %I', current_database(), role_name);
  end loop;
  execute format('grant temporary on database %I to intake_loader', current_database());
  execute format('revoke connect, temporary on database %I from public', current_database());
end
$$;

-- Rows of a team are for those who see the team (intake_ops.access). Owners are not bound by policies, analysts read
-- views, which ask for themselves; policies bind the clinical role. Tables that have them cost one look.
do $$
declare
  here record;
begin
  for here in
    select c.oid::regclass as name, c.relrowsecurity as is_bound,
      exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'clinical') as has_clinical,
      exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'loader') as has_loader
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'team_id' and not a.attisdropped
    where c.relnamespace = 'intake'::regnamespace and c.relkind in ('r', 'p')
    order by c.oid
  loop
    if not here.has_clinical then
      execute format(
        'create policy clinical on %s for select to intake_clinical
           using (team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]))', here.name);
    end if;
    if not here.has_loader then
      execute format('create policy loader on %s to intake_loader using (true) with check (true)', here.name);
    end if;
    if not here.is_bound then
      execute format('alter table %s enable row level security', here.name);
    end if;
  end loop;
end
$$;
