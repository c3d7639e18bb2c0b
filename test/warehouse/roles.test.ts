/** What sql/roles.sql grants to each role, in each schema: this and no more. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSession } from '../../src/warehouse/connect.ts'
import { ensureRoles, sqlFile } from '../../src/warehouse/migrations.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

let warehouse: TestDatabase
beforeAll(async () => {
  warehouse = await openWarehouse()
  await query(warehouse.url, 'create table intake_exports.mine (); create table intake_forms.mine ()')
  await using session = await openSession({ url: warehouse.url, purpose: 'roles' })
  expect(await ensureRoles(session.db)).toBeNull()
})
afterAll(() => warehouse.drop())

const ROLES = ['intake_loader', 'intake_analyst', 'intake_clinical', 'intake_researcher']
const SCHEMAS =
  'intake intake_analytics intake_exports intake_fhir intake_forms intake_ops intake_raw intake_safe_harbor'.split(
    ' ',
  )

/** By role and schema: the privileges on it, and those on all, or on how many, of its tables, views and sequences. */
async function granted(): Promise<Readonly<Record<string, string>>> {
  const rows = await query<{ place: string; own: string | null; parts: string | null }>(
    warehouse.url,
    `with parts as (
       select r.role, c.relnamespace::regnamespace::text as schema, c.relkind = 'S' as is_sequence, p.privilege, count(*) as whole,
         count(*) filter (where case when c.relkind = 'S' then has_sequence_privilege(r.role, c.oid, p.privilege)
           else has_table_privilege(r.role, c.oid, p.privilege) end) as part,
         string_agg(c.relname, ',' order by c.relname) filter (where case when c.relkind = 'S' then has_sequence_privilege(r.role, c.oid, p.privilege)
           else has_table_privilege(r.role, c.oid, p.privilege) end) as names
       from unnest($1::text[]) r (role)
       cross join pg_class c
       join (values (true, 'usage'), (true, 'select'), (true, 'update'), (false, 'select'), (false, 'insert'), (false, 'update'), (false, 'delete'),
         (false, 'truncate'), (false, 'references'), (false, 'trigger')) p (is_sequence, privilege) on p.is_sequence = (c.relkind = 'S')
       where c.relnamespace = any ($2::regnamespace[]) and c.relkind in ('r', 'p', 'v', 'm', 'S')
       group by 1, 2, 3, 4
     )
     select r.role || ' ' || s.schema as place,
       concat_ws(' ', case when has_schema_privilege(r.role, s.schema, 'usage') then 'usage' end,
         case when has_schema_privilege(r.role, s.schema, 'create') then 'create' end) as own,
       (select string_agg(case when is_sequence then 'sequences ' else '' end || privilege || case when part = whole then '' else ' on ' || names end,
          ', ' order by is_sequence, privilege)
        from parts where parts.role = r.role and parts.schema = s.schema and part > 0) as parts
     from unnest($1::text[]) r (role) cross join unnest($2::text[]) s (schema)`,
    [ROLES, SCHEMAS],
  )
  return Object.fromEntries(
    rows
      .filter(({ own, parts }) => own || parts)
      .map(({ place, own, parts }) => [place, `${own || 'no usage'}: ${parts ?? 'nothing'}`]),
  )
}

test('each role may do this with schemas, tables, views and sequences, and nothing else', async () => {
  const written = 'usage: delete, insert, select, truncate, update, sequences select, sequences usage'
  const of = (role: string, schemas: string) =>
    schemas.split(' ').map((schema) => [`intake_${role} ${schema}`, 'usage: select'])
  expect(await granted()).toEqual({
    ...Object.fromEntries([
      ...of('loader', 'intake_analytics intake_exports intake_forms intake_safe_harbor'),
      ...of('analyst', 'intake_analytics intake_exports intake_forms'),
      ...of('clinical', 'intake intake_analytics intake_exports intake_forms intake_fhir'),
      ...of('researcher', 'intake_safe_harbor'),
    ]),
    'intake_loader intake': written,
    'intake_loader intake_ops': written,
    'intake_loader intake_raw': written,
  })
})

test('functions that reveal a key or take a lock are open to the loader only, and what teams one sees to all roles', async () => {
  const rows = await query<{ name: string; roles: string }>(
    warehouse.url,
    `select p.oid::regproc::text as name, (
       select string_agg(role, ' ' order by role) from unnest($1::text[]) role where has_function_privilege(role, p.oid, 'execute')
     ) as roles
     from pg_proc p
     where p.pronamespace::regnamespace::text ~ '^intake' and p.prorettype <> 'trigger'::regtype
       and not coalesce((select bool_or(acl.grantee = 0) from aclexplode(p.proacl) acl), true) order by 1`,
    [ROLES],
  )
  expect(rows.map(({ name, roles }) => `${name}: ${roles}`)).toEqual([
    'intake_ops.hmac_pad: intake_loader',
    'intake_ops.hold_erasures: intake_loader',
    'intake_ops.lock_holders: intake_loader',
    'intake_ops.lock_key: intake_loader',
    'intake_ops.take_lock: intake_loader',
    'intake_ops.teams_of: intake_analyst intake_clinical intake_loader intake_researcher',
    'intake_raw.add_inbox_day: intake_loader',
    'intake_raw.drop_inbox_day: intake_loader',
    'intake_raw.hold_inbox_of: intake_loader',
  ])
})

test('a reader of its own role finds its own schemas first, and only these roles may connect', async () => {
  const settings = await query(
    warehouse.url,
    `select r.rolname as role, array_to_string(s.setconfig, ' ') as settings from pg_db_role_setting s
     join pg_roles r on r.oid = s.setrole join pg_database d on d.oid = s.setdatabase and d.datname = current_database()
     where r.rolname = any ($1) order by 1`,
    [ROLES],
  )
  const database = await query(
    warehouse.url,
    `select coalesce(r.rolname, 'public') as role, string_agg(acl.privilege_type, ' ' order by acl.privilege_type) as may
     from pg_database d cross join aclexplode(d.datacl) acl left join pg_roles r on r.oid = acl.grantee
     where d.datname = current_database() and acl.grantee <> d.datdba group by 1 order by 1`,
  )
  expect(settings).toEqual([
    { role: 'intake_analyst', settings: 'search_path=intake_analytics, public' },
    { role: 'intake_clinical', settings: 'search_path=intake, intake_analytics, public' },
    { role: 'intake_researcher', settings: 'search_path=intake_safe_harbor, public' },
  ])
  expect(database).toEqual([
    { role: 'intake_analyst', may: 'CONNECT' },
    { role: 'intake_clinical', may: 'CONNECT' },
    { role: 'intake_loader', may: 'CONNECT TEMPORARY' },
    { role: 'intake_researcher', may: 'CONNECT' },
  ])
})

test.each([
  ['', ''],
  ['create table intake.more (n int)', ''],
  ['create schema intake_dbt; create view intake_dbt.mine as select 1 as n', ''],
  ['create schema graphile_worker; create table graphile_worker.jobs (n int)', ''],
  [
    'create table public.of_an_extension (n int); alter extension plpgsql add table public.of_an_extension',
    '',
  ],
  ['create sequence public.numbers; create type public.mood as enum ()', ''],
  ['create table public.theirs (n int)', 'CONNECT TEMPORARY'],
  ['create table public.theirs (n int) partition by list (n)', 'CONNECT TEMPORARY'],
  ['create view public.theirs as select 1 as n', 'CONNECT TEMPORARY'],
  ['create materialized view public.theirs as select 1 as n', 'CONNECT TEMPORARY'],
  [
    'create foreign data wrapper w; create server s foreign data wrapper w; create foreign table public.theirs (n int) server s',
    'CONNECT TEMPORARY',
  ],
  ['create schema intakes; create table intakes.theirs (n int)', 'CONNECT TEMPORARY'],
  ['create schema my_intake; create table my_intake.theirs (n int)', 'CONNECT TEMPORARY'],
])('everybody may connect only where others have relations: %j', async (made, may) => {
  await using session = await openSession({ url: warehouse.url, purpose: 'roles' })
  await session.client.query(`begin; do $$ begin
    execute format('grant connect, temporary on database %I to public', current_database()); end $$; ${made}`)
  await session.client.query(await sqlFile('roles.sql'))
  const { rows } = await session.client.query(
    `select coalesce(string_agg(acl.privilege_type, ' ' order by acl.privilege_type), '') as may
     from pg_database d cross join aclexplode(d.datacl) acl where d.datname = current_database() and acl.grantee = 0`,
  )
  await session.client.query('rollback')
  expect(rows).toEqual([{ may }])
})

test('every table of intake with a team has two policies: readers see the teams granted to them, and the loader all', async () => {
  const rows = await query(
    warehouse.url,
    `select p.polname as name, p.polcmd as command, p.polroles::regrole[]::text as roles, p.polpermissive as permissive,
       pg_get_expr(p.polqual, p.polrelid) as using, pg_get_expr(p.polwithcheck, p.polrelid) as checks, count(*)::int as tables,
       bool_and(c.relrowsecurity) as bound
     from pg_policy p join pg_class c on c.oid = p.polrelid group by 1, 2, 3, 4, 5, 6 order by 1`,
  )
  const policy = { permissive: true, tables: 26, bound: true }
  expect(rows).toEqual([
    {
      ...{ name: 'clinical', command: 'r', roles: '{intake_clinical}', ...policy, checks: null },
      using: '(team_id = ANY (( SELECT intake_ops.teams_of((CURRENT_USER)::text) AS teams_of)::smallint[]))',
    },
    { ...policy, name: 'loader', command: '*', roles: '{intake_loader}', using: 'true', checks: 'true' },
  ])
  expect(await withoutPolicies()).toEqual([])
})

test('a table that was opened by hand is bound again by the next migration, and one without a policy has it again', async () => {
  await query(
    warehouse.url,
    `alter table intake.patients disable row level security; drop policy clinical on intake.forms; drop policy loader on intake.packets`,
  )
  expect(await withoutPolicies()).toHaveLength(3)
  await using session = await openSession({ url: warehouse.url, purpose: 'roles' })
  expect(await ensureRoles(session.db)).toBeNull()
  expect(await withoutPolicies()).toEqual([])
})

test('every view that readers may read is a barrier: no function of theirs sees a row that it hides', async () => {
  const rows = await query<{ name: string; is_barrier: boolean }>(
    warehouse.url,
    `select oid::regclass::text as name, coalesce(reloptions = '{security_barrier=true}', false) as is_barrier from pg_class
     where relkind = 'v' and relnamespace = any ('{intake,intake_analytics,intake_fhir,intake_safe_harbor}'::regnamespace[])`,
  )
  expect(rows.length).toBeGreaterThan(35)
  expect(rows.filter(({ is_barrier }) => !is_barrier)).toEqual([])
})

/** Tables of intake with a team that are not bound, or do not have both policies. */
function withoutPolicies() {
  return query(
    warehouse.url,
    `select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'team_id'
     where c.relnamespace = 'intake'::regnamespace and c.relkind in ('r', 'p')
       and (not c.relrowsecurity or (select count(*) from pg_policy p where p.polrelid = c.oid) <> 2)`,
  )
}
