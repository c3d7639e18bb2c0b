-- Optional, and no migration: divides each large table by hash into partitions, in the schema intake_partitions. A record, its
-- payloads and its children are in partitions of one number. docs/scaling.md says what that costs. It writes every row anew in one
-- transaction. Run it as the owner of the schemas, after a backup, while no process of intake-sync runs, and migrate then:
--
--   psql -v ON_ERROR_STOP=1 -c 'set intake.partitions = 16' -f sql/partitions.sql   # 16 if it is left out
--   intake-sync migrate
--
-- Run again, it changes only tables that are not partitioned yet.

begin;

-- Definitions are then written with the schema of every name.
set local search_path = pg_catalog;
-- An error in place of rows that a policy hides.
set local row_security = off;

do $$
declare
  parts constant int := coalesce(nullif(current_setting('intake.partitions', true), ''), '16');
  -- What grows with patients and their responses; what a team configures stays small, and a log is pruned.
  large constant text[][] := array[
    ['intake_raw.records', 'team_id, id'],
    ['intake_raw.record_history', 'team_id, id'],
    ['intake.patients', 'team_id, id'],
    ['intake.patient_emergency_contacts', 'team_id, patient_id'],
    ['intake.patient_tags', 'team_id, patient_id'],
    ['intake.patient_custom_fields', 'team_id, patient_id'],
    ['intake.messages', 'team_id, id'],
    ['intake.responses', 'team_id, id'],
    ['intake.response_answers', 'team_id, response_id'],
    ['intake.response_matrix_cells', 'team_id, response_id'],
    ['intake.response_files', 'team_id, response_id'],
    ['intake.response_signatures', 'team_id, response_id'],
    ['intake.packet_responses', 'team_id, id'],
    ['intake.packet_response_members', 'team_id, packet_response_id'],
    -- One file may have most of the rows.
    ['intake.export_rows', 'team_id, export_id, row_number'],
    ['intake.export_cells', 'team_id, export_id, row_number']
  ];
  plain oid[] := '{}';
  own record;
  part text;
  each text;
  -- Statements: what is defined on a table, and the views that read it.
  kept text[];
  views text[];
begin
  if parts not between 2 and 256 then
    raise exception 'intake.partitions is %, and must be 2 to 256', parts;
  end if;
  if to_regclass('intake.packet_responses') is null then
    raise exception 'this is no migrated warehouse: run intake-sync migrate before';
  end if;
  if exists (
    select from pg_stat_activity
    where datname = current_database() and application_name like 'intake-sync %' and pid <> pg_backend_pid()
  ) then
    raise exception 'a process of intake-sync is connected to this database: stop it before';
  end if;
  execute format('set local role %I', (select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'intake'));
  for at in 1 .. array_length(large, 1) loop
    select c.oid, c.relkind, large[at][1] as name, (
        select count(*) from pg_inherits where inhparent = c.oid
      ) as children,
      concat_ws(' and ',
        case when c.relkind <> 'r' or c.relpersistence <> 'p' then 'another kind than that of a logged table' end,
        case when exists (select from pg_inherits where c.oid in (inhparent, inhrelid)) then 'parents or children' end,
        case when exists (select from pg_rewrite where ev_class = c.oid) then 'rules' end,
        case when exists (select from pg_publication_rel where prrelid = c.oid) then 'a place in a publication' end,
        case when c.relreplident <> 'd' then 'a replica identity' end,
        case when exists (select from pg_seclabel where objoid = c.oid and classoid = 'pg_class'::regclass)
          then 'security labels' end) as refused
    into strict own from pg_class c where c.oid = large[at][1]::regclass;
    if own.relkind <> 'p' and own.refused = '' then
      plain := plain || own.oid;
      execute format('lock table %s in access exclusive mode nowait', own.name);
    elsif own.relkind <> 'p' then
      raise exception '% has %, which this script does not keep', own.name, own.refused;
    elsif own.children <> parts then
      raise exception '% has % partitions, and the number can not be changed', own.name, own.children;
    end if;
  end loop;
  if plain = '{}' then
    raise notice 'every large table has its % partitions already', parts;
    return;
  end if;
  create schema if not exists intake_partitions;
  comment on schema intake_partitions is 'Partitions of large tables of intake and intake_raw, which are read and written by the names of these.';
  views := array(
    select format('create or replace view %I.%I %s as %s', n.nspname, v.relname,
      'with (' || array_to_string(v.reloptions, ', ') || ')', pg_get_viewdef(v.oid))
    from pg_class v join pg_namespace n on n.oid = v.relnamespace
    where v.relkind = 'v' and v.oid in (
      select r.ev_class from pg_depend d join pg_rewrite r on r.oid = d.objid
      where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = any (plain))
    order by v.oid
  );
  for at in 1 .. array_length(large, 1) loop
    select c.oid, large[at][1] as name, n.nspname as schema, c.relname as short, c.reltablespace,
      'with (' || nullif(array_to_string(c.reloptions || array(select 'toast.' || unnest(t.reloptions)), ', '), '') || ')' as options
    into own
    from pg_class c join pg_namespace n on n.oid = c.relnamespace left join pg_class t on t.oid = c.reltoastrelid
    where c.oid = large[at][1]::regclass and c.oid = any (plain);
    continue when not found;
    kept := array(
      select format('alter table %s add constraint %I %s', own.name, conname, pg_get_constraintdef(oid))
      from pg_constraint where conrelid = own.oid and contype in ('p', 'u', 'x', 'f') order by contype = 'f', conname
    ) || array(
      select pg_get_indexdef(indexrelid) from pg_index
      where indrelid = own.oid and not exists (select from pg_constraint where conrelid = own.oid and conindid = indexrelid)
    ) || array(
      select pg_get_statisticsobjdef(oid) from pg_statistic_ext where stxrelid = own.oid
    ) || array(
      select format('alter statistics %s.%I set statistics %s', stxnamespace::regnamespace, stxname, stxstattarget)
      from pg_statistic_ext where stxrelid = own.oid and stxstattarget >= 0
    ) || array(
      select pg_get_triggerdef(oid) from pg_trigger where tgrelid = own.oid and not tgisinternal order by tgname
    ) || array(
      select format('alter table %s %s trigger %I', own.name,
        case tgenabled when 'D' then 'disable' when 'A' then 'enable always' else 'enable replica' end, tgname)
      from pg_trigger where tgrelid = own.oid and not tgisinternal and tgenabled <> 'O'
    ) || array(
      select format('create policy %I on %s as %s for %s to %s', policyname, own.name, permissive, cmd,
          (select string_agg(quote_ident(role_name), ', ') from unnest(roles) role_name))
        || coalesce(' using (' || qual || ')', '') || coalesce(' with check (' || with_check || ')', '')
      from pg_policies where schemaname = own.schema and tablename = own.short
    ) || array(
      select format('alter table %s %s row level security', own.name, change)
      from pg_class, unnest(array[case when relrowsecurity then 'enable' end, case when relforcerowsecurity then 'force' end])
        as change
      where oid = own.oid and change is not null
    ) || array(
      select format('grant %s%s on %s to %s%s', privilege_type, ' (' || quote_ident(attname) || ')', own.name,
        case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end,
        case when is_grantable then ' with grant option' end)
      from (
        select null as attname, relowner, given.* from pg_class, aclexplode(relacl) given where oid = own.oid
        union all
        select attname, 0, given.* from pg_attribute, aclexplode(attacl) given where attrelid = own.oid
      ) given
      where grantee <> relowner or grantee = 0
    ) || array(
      select format('alter table %s alter column %I set statistics %s', own.name, attname, attstattarget)
      from pg_attribute where attrelid = own.oid and attstattarget >= 0 and attnum > 0 and not attisdropped
    ) || array(
      select format('alter table %s alter column %I set (%s)', relation, attname, array_to_string(attoptions, ', '))
      from pg_attribute, unnest(own.name || array(
        select format('intake_partitions.%I', own.short || '_' || number) from generate_series(0, parts - 1) number
      )) relation
      where attrelid = own.oid and attoptions is not null and not attisdropped
    ) || array(
      select format('comment on %s is %L', what, description)
      from pg_description join (
        select own.oid, 'pg_class'::regclass as class, format('table %s', own.name) as what
        union all
        select indexrelid, 'pg_class'::regclass, format('index %I.%I', own.schema, relname)
        from pg_index join pg_class on pg_class.oid = indexrelid where indrelid = own.oid
        union all
        select oid, 'pg_constraint'::regclass, format('constraint %I on %s', conname, own.name)
        from pg_constraint where conrelid = own.oid
        union all
        select oid, 'pg_trigger'::regclass, format('trigger %I on %s', tgname, own.name) from pg_trigger where tgrelid = own.oid
        union all
        select oid, 'pg_policy'::regclass, format('policy %I on %s', polname, own.name) from pg_policy where polrelid = own.oid
        union all
        select oid, 'pg_statistic_ext'::regclass, format('statistics %s.%I', stxnamespace::regnamespace, stxname)
        from pg_statistic_ext where stxrelid = own.oid
      ) object on objoid = object.oid and classoid = class and objsubid = 0
    );
    -- The names become free.
    for each in
      select format('alter index %s rename to %I', indexrelid::regclass, 'plain_' || indexrelid)
      from pg_index where indrelid = own.oid
      union all
      select format('drop statistics %s.%I', stxnamespace::regnamespace, stxname) from pg_statistic_ext where stxrelid = own.oid
    loop
      execute each;
    end loop;
    perform set_config('default_tablespace',
      coalesce((select spcname::text from pg_tablespace where oid = own.reltablespace), ''), true);
    execute format('alter table %s rename to %I', own.name, own.short || '_plain');
    execute format(
      'create table %s (like %I.%I including all excluding indexes excluding statistics) partition by hash (%s)',
      own.name, own.schema, own.short || '_plain', large[at][2]);
    for number in 0 .. parts - 1 loop
      part := format('intake_partitions.%I', own.short || '_' || number);
      execute format('create table %s partition of %s for values with (modulus %s, remainder %s) %s',
        part, own.name, parts, number, own.options);
      execute format('comment on table %s is %L', part, 'A partition of ' || own.name || '.');
    end loop;
    -- What default privileges gave.
    for each in
      select distinct format('revoke all on %s from %s', c.oid::regclass,
        case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end)
      from pg_partition_tree(own.name::regclass) join pg_class c on c.oid = relid, aclexplode(c.relacl)
      where grantee <> c.relowner
    loop
      execute each;
    end loop;
    execute format('insert into %s select * from %I.%I', own.name, own.schema, own.short || '_plain');
    foreach each in array kept loop
      execute each;
    end loop;
  end loop;
  foreach each in array views loop
    execute each;
  end loop;
  for own in select oid::regclass as name from unnest(plain) oid loop
    begin
      execute format('drop table %s', own.name);
    exception when dependent_objects_still_exist then
      get stacked diagnostics each = pg_exception_detail;
      raise exception 'drop what depends on the tables, run this script, and create it again: %', each;
    end;
  end loop;
end $$;

commit;
