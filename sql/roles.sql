-- The roles of a warehouse and what each may do. Run at every migrate, so that a table that came later is covered and
-- a role that could not be created then is granted once it exists. Roles belong to the whole server: another database
-- may create them at the same moment.

do $$
declare
  role_name text;
begin
  foreach role_name in array array['intake_loader', 'intake_analyst', 'intake_clinical'] loop
    if not exists (select from pg_roles where rolname = role_name) then
      begin
        execute format('create role %I nologin', role_name);
      exception
        when duplicate_object or unique_violation then null;
      end;
    end if;
  end loop;
end
$$;

grant usage on schema intake, intake_raw, intake_ops, intake_analytics to intake_loader;
grant select, insert, update, delete, truncate on all tables in schema intake, intake_raw, intake_ops to intake_loader;
grant usage, select on all sequences in schema intake, intake_raw, intake_ops to intake_loader;
grant execute on all functions in schema intake_raw, intake_ops to intake_loader;
grant select on all tables in schema intake_analytics to intake_loader;

grant usage on schema intake_analytics to intake_analyst;
grant select on all tables in schema intake_analytics to intake_analyst;

grant usage on schema intake, intake_analytics to intake_clinical;
grant select on all tables in schema intake, intake_analytics to intake_clinical;
