/** sql/partitions.sql: what it keeps, what it refuses, and that it may run again. */
import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'
import { query } from '../e2e/support/scene.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { PARTITIONS_SCRIPT, partition } from '../support/partition.ts'
import { openTestSession, withSession } from '../support/sessions.ts'

const PARTS = 3
/** Of this file: tablespaces belong to the server. */
const TABLESPACE = `intake_test_${randomBytes(6).toString('hex')}`

/** What owners may have added to a table, of each kind. */
const ADDED = `
  alter table intake.patients set (autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_enabled = false);
  alter table intake.patients alter column city set statistics 7;
  alter table intake.patients alter column zipcode set statistics 0;
  alter table intake.patients alter column state set (n_distinct = 50);
  alter table intake.patients alter column address set storage external;
  alter table intake.patients add constraint "has a State" check (state <> '');
  alter table intake.patients add constraint of_a_team foreign key (team_id) references intake.teams;
  alter table intake.patients add constraint external_ids unique (team_id, id, external_id) deferrable;
  comment on constraint "has a State" on intake.patients is 'It''s a rule.';
  create index by_name on intake.patients (lower(last_name)) where city is not null;
  comment on index intake.by_name is 'Names.';
  create statistics intake.places (dependencies) on city, state from intake.patients;
  alter statistics intake.places set statistics 300;
  comment on statistics intake.places is 'States have their cities.';
  create statistics intake_ops."Zips" on zipcode, state from intake.patients;
  create policy "only Vermont" on intake.patients as restrictive for select to intake_clinical using (state = 'VT');
  comment on policy "only Vermont" on intake.patients is 'Others are elsewhere.';
  create policy "of its writers" on intake.patients for insert with check (city is not null);
  alter table intake.patients force row level security;
  grant select (team_id, id), update on intake.patients to intake_analyst with grant option;
  grant select on intake.messages to public;
  revoke truncate on intake.messages from intake_loader;
  alter table intake.responses disable trigger newest_deleted;
  alter table intake.responses enable always trigger newest_inserted;
  alter table intake.responses enable replica trigger newest_updated;
  comment on trigger newest_deleted on intake.responses is 'Not now.';
  create schema reports;
  create view reports.names with (security_barrier, security_invoker) as
    select p.id as "Id", r.id as response from intake.patients p left join intake.responses r on r.patient_id = p.id;
  create view reports.counts as select count(*) from reports.names;
  comment on column reports.names."Id" is 'Of the patient.';
  grant select on reports.names to intake_analyst;
  insert into intake.teams (name) values ('default');
  insert into intake.patients (team_id, id, state, city, _version, _origin)
    select 1, number::text, case when number % 2 = 0 then 'VT' else 'NY' end, 'Somewhere', now(), 'run:1 page:1'
    from generate_series(1, 50) number;
  insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
    select team_id, 'patients', id, _version, _version, '', _origin from intake.patients;
  update intake_raw.records set hash = '\\x01';`

let plain: TestDatabase
let divided: TestDatabase
let session: pg.Client
let settings: unknown

/** What the script changes until its end. */
const settingsOf = async () =>
  (
    await session.query(
      `select name, setting from pg_settings where name in ('search_path', 'row_security', 'role', 'default_tablespace')`,
    )
  ).rows

beforeAll(async () => {
  plain = await createTestDatabase()
  divided = await createTestDatabase()
  for (const { url } of [plain, divided]) await query(url, ADDED)
  session = await openTestSession(divided.url)
  settings = await settingsOf()
  await session.query('set allow_in_place_tablespaces = on')
  await session.query(`create tablespace ${TABLESPACE} location ''`)
  await session.query(`alter table intake.messages set tablespace ${TABLESPACE}`)
  await partition(session, PARTS)
})

afterAll(async () => {
  await session.end()
  await Promise.all([plain.drop(), divided.drop()])
  await withSession(inject('testServer').url, (client) => client.query(`drop tablespace ${TABLESPACE}`))
})

test('the parts of a table are in its tablespace, and those of others are not', async () => {
  const { rows } = await session.query(
    `select parent.relname as parent, spcname as tablespace, count(*)::int as parts
     from pg_inherits join pg_class part on part.oid = inhrelid join pg_class parent on parent.oid = inhparent
     left join pg_tablespace on pg_tablespace.oid = part.reltablespace
     where parent.relname in ('messages', 'patients', 'responses') and part.relkind = 'r' group by 1, 2 order by 1`,
  )
  expect(rows).toEqual([
    { parent: 'messages', tablespace: TABLESPACE, parts: PARTS },
    { parent: 'patients', tablespace: null, parts: PARTS },
    // It is divided after the messages.
    { parent: 'responses', tablespace: null, parts: PARTS },
  ])
})

test('the session that ran the script has its own settings again', async () => {
  expect(await settingsOf()).toEqual(settings)
})

/** All that is defined on tables, views and their parts, one line each, without partitions. The columns of a view have the names of its other columns inside. */
const DEFINED = `
  with own as (
    select c.*, format('%s.%s ', nspname, relname) as name
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where (nspname ~ '^intake' or nspname = 'reports') and nspname <> 'intake_partitions' and relkind in ('r', 'p', 'v')
      and relname !~ '^inbox'
  )
  select name || concat_ws(' ', relowner::regrole, relrowsecurity, relforcerowsecurity, relpersistence) as line from own
  union all
  select name || concat_ws(' ', attnum, attname, format_type(atttypid, atttypmod), attnotnull, attstattarget, attoptions,
    attstorage, attcompression, attidentity, attgenerated, attcollation, pg_get_expr(adbin, adrelid))
  from own join pg_attribute on attrelid = own.oid and attnum > 0 and not attisdropped
  left join pg_attrdef on adrelid = own.oid and adnum = attnum
  union all
  select name || concat_ws(' ', conname, convalidated, conislocal, pg_get_constraintdef(c.oid))
  from own join pg_constraint c on conrelid = own.oid
  union all
  select name || concat_ws(' ', replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON '), indisprimary, indisvalid, indimmediate)
  from own join pg_index on indrelid = own.oid
  union all
  select concat_ws(' ', name, pg_get_statisticsobjdef(s.oid), nullif(stxstattarget, -1)) from own join pg_statistic_ext s on stxrelid = own.oid
  union all
  select name || pg_get_triggerdef(t.oid) || tgenabled::text from own join pg_trigger t on tgrelid = own.oid and not tgisinternal
  union all
  select name || p::text from own join pg_namespace n on n.oid = relnamespace
  join pg_policies p on schemaname = nspname and tablename = relname
  union all
  select name || concat_ws(' ', grantee::regrole, privilege_type, is_grantable) from own, aclexplode(relacl)
  union all
  select name || concat_ws(' ', attname, grantee::regrole, privilege_type, is_grantable)
  from own join pg_attribute on attrelid = own.oid, aclexplode(attacl)
  union all
  select name || regexp_replace(pg_get_viewdef(own.oid), ' AS ("[^"]*"|\\w+)', '', 'g') || coalesce(reloptions::text, '')
  from own where relkind = 'v'
  union all
  select concat_ws(' ', pg_describe_object(classoid, objoid, objsubid), description) from pg_description
  where pg_describe_object(classoid, objoid, objsubid) !~ 'intake_partitions'
  order by 1`

const defined = async ({ url }: TestDatabase) =>
  (await query<{ line: string }>(url, DEFINED)).map(({ line }) => line)

/** Partitions, with the options of each. */
const partsOf = ({ url }: TestDatabase) =>
  query<{ oid: number; parent: string; part: string; options: string | null; acl: string | null }>(
    url,
    `select c.oid::int, format('%s.%s', n.nspname, whole.relname) as parent, c.oid::regclass::text as part,
       concat_ws(' ', c.reloptions, t.reloptions) as options, c.relacl::text as acl
     from pg_inherits join pg_class c on c.oid = inhrelid join pg_class whole on whole.oid = inhparent
     join pg_namespace n on n.oid = whole.relnamespace left join pg_class t on t.oid = c.reltoastrelid
     where c.relnamespace = 'intake_partitions'::regnamespace and c.relkind = 'r' order by 2, 3`,
  )

describe('a warehouse whose large tables were partitioned', () => {
  test('has every key, index, default, check, trigger, policy, grant, comment and view of a plain one', async () => {
    const [before, after] = [await defined(plain), await defined(divided)]
    expect(before.length).toBeGreaterThan(1_000)
    expect(after).toEqual(before)
  })

  test('has the rows of each table in partitions with its storage parameters, which only the loader may read by name', async () => {
    const parts = await partsOf(divided)
    const tables = [...new Set(parts.map(({ parent }) => parent))]
    expect(parts.length).toBe(PARTS * tables.length)
    const options = parts.filter(({ parent }) => parent === 'intake.patients').map((part) => part.options)
    expect(new Set(options)).toEqual(
      new Set(['{autovacuum_vacuum_scale_factor=0.01} {autovacuum_enabled=false}']),
    )
    expect(parts.filter(({ acl }) => acl !== null)).toEqual([])
    const counts = await query<{ places: number; rows: number }>(
      divided.url,
      `select count(distinct tableoid)::int as places, count(*)::int as rows from intake.patients
       union all select count(distinct tableoid)::int, count(*)::int from intake_raw.record_history`,
    )
    expect(counts).toEqual([
      { places: PARTS, rows: 50 },
      { places: PARTS, rows: 50 },
    ])
    await migrate(divided.url)
    // Deleted rows are found by their places in a part (src/operate/erase).
    expect(
      await query(
        divided.url,
        `select c.oid::regclass::text as part, string_agg(distinct grantee::regrole || ' ' || privilege_type, ', ') as granted
         from pg_class c cross join aclexplode(c.relacl)
         where c.relnamespace = 'intake_partitions'::regnamespace and c.relkind = 'r' and grantee <> relowner
         group by 1 order by 1`,
      ),
    ).toEqual(
      parts
        .map(({ part }) => ({ part, granted: 'intake_loader DELETE, intake_loader SELECT' }))
        .toSorted((a, b) => (a.part < b.part ? -1 : 1)),
    )
    expect(
      await query(
        divided.url,
        `select role, has_schema_privilege(role, 'intake_partitions', 'usage') as may
         from unnest('{intake_loader,intake_analyst,intake_clinical,intake_researcher}'::text[]) role`,
      ),
    ).toEqual([
      { role: 'intake_loader', may: true },
      { role: 'intake_analyst', may: false },
      { role: 'intake_clinical', may: false },
      { role: 'intake_researcher', may: false },
    ])
  })

  test('has what is said of a table and its columns in each part too', async () => {
    const of = await query<{ part: string; about: string; columns: string | null }>(
      divided.url,
      `select c.oid::regclass::text as part, obj_description(c.oid, 'pg_class') as about, (
         select string_agg(concat_ws(' ', attname, attoptions, nullif(attstattarget, -1), attstorage), ', ' order by attnum)
         from pg_attribute where attrelid = c.oid and attname in ('state', 'city', 'zipcode', 'address')
       ) as columns
       from pg_class c where c.relnamespace = 'intake_partitions'::regnamespace and c.relkind = 'r'`,
    )
    const parents = new Map((await partsOf(divided)).map(({ part, parent }) => [part, parent]))
    expect(of.map(({ part, about }) => [part, about])).toEqual(
      of.map(({ part }) => [part, `A partition of ${parents.get(part)}.`]),
    )
    expect(
      new Set(of.filter(({ part }) => part.includes('.patients_')).map(({ columns }) => columns)),
    ).toEqual(new Set(['address e, city 7 x, state {n_distinct=50} x, zipcode 0 x']))
    expect(
      await query(
        divided.url,
        `select obj_description('intake_partitions'::regnamespace, 'pg_namespace') as about`,
      ),
    ).toEqual([
      {
        about:
          'Partitions of large tables of intake and intake_raw, which are read and written by the names of these.',
      },
    ])
  })

  test('stores a record and its children, which are partitioned with it, under one number', async () => {
    const names = new Set((await partsOf(divided)).map(({ parent }) => parent.replace('intake.', '')))
    for (const { table, children } of ALL_STREAMS) {
      if (!names.has(table)) continue
      for (const child of children) expect(names).toContain(child.table)
    }
    await query(
      divided.url,
      `insert into intake.patient_tags (team_id, patient_id, position) select team_id, id, 1 from intake.patients`,
    )
    expect(
      await query(
        divided.url,
        `select count(*)::int from intake.patients p join intake.patient_tags c on (c.team_id, c.patient_id) = (p.team_id, p.id)
         join intake_raw.records r on (r.team_id, r.id) = (p.team_id, p.id)
         where array[right(c.tableoid::regclass::text, 1), right(r.tableoid::regclass::text, 1)]
           <> array_fill(right(p.tableoid::regclass::text, 1), '{2}')`,
      ),
    ).toEqual([{ count: 0 }])
    await query(divided.url, 'delete from intake.patient_tags')
  })

  test('stays as it is when the script runs again, and refuses another number', async () => {
    const before = [await defined(divided), await partsOf(divided)]
    await partition(session, PARTS)
    expect([await defined(divided), await partsOf(divided)]).toEqual(before)
    await expect(partition(session, 8)).rejects.toThrow(
      'intake_raw.records has 3 partitions, and the number can not be changed',
    )
  })

  test('takes a later column and index in every partition', async () => {
    await query(
      divided.url,
      `alter table intake.patients add column later text default 'x'; create index later on intake.patients (later)`,
    )
    const [indexes] = await query<{ count: number }>(
      divided.url,
      `select count(*)::int from pg_partition_tree('intake.later')`,
    )
    expect(indexes!.count).toBe(PARTS + 1)
    await query(divided.url, 'alter table intake.patients drop column later')
  })
})

describe('sql/partitions.sql changes nothing', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database.drop())

  /** Another session does `before`, and is in its transaction while the script runs. */
  async function expectRefused(before: string, after: string, message: string): Promise<void> {
    await withSession(database.url, async (other) => {
      await other.query(before)
      await withSession(database.url, (client) => expect(partition(client)).rejects.toThrow(message))
      await other.query(after)
    })
    expect(await query(database.url, `select from pg_partitioned_table where partstrat = 'h'`)).toEqual([])
  }

  test.each([
    [
      'of a table in a publication',
      'create publication out for table intake.messages',
      'drop publication out',
      'a place in a publication',
    ],
    [
      'of a table with rules',
      'create rule nothing as on delete to intake.messages do instead nothing',
      'drop rule nothing on intake.messages',
      'intake.messages has rules',
    ],
    [
      'below a materialized view',
      'create materialized view kept as select id from intake.messages',
      'drop materialized view kept',
      'drop what depends on the tables, run this script, and create it again: materialized view',
    ],
    [
      'while a table is in use',
      'begin; select from intake_raw.records',
      'rollback',
      'could not obtain lock on relation "intake_raw.records"',
    ],
    [
      'while a process of intake-sync is connected',
      `set application_name = 'intake-sync serve'`,
      'reset application_name',
      'a process of intake-sync is connected to this database',
    ],
  ])('%s, and says so', async (_, before, after, message) => {
    await expectRefused(before, after, message)
  })

  test('with a number that makes no sense, or where nothing was migrated', async () => {
    await using empty = await createTestDatabase({ empty: true })
    await withSession(empty.url, async (client) => {
      await expect(partition(client, 1)).rejects.toThrow('intake.partitions is 1, and must be 2 to 256')
      await expect(partition(client)).rejects.toThrow('run intake-sync migrate before')
    })
  })

  test('until its end: it is one transaction', () => {
    expect(PARTITIONS_SCRIPT.match(/^(?:begin|commit);$/gm)).toEqual(['begin;', 'commit;'])
  })
})
