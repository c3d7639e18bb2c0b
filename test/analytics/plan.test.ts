/** `migrate --plan` predicts the locks of every migration, and changes nothing. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { planMigration, plannedIn } from '../../src/analytics/plan.ts'
import { runsInBatches, statementsIn } from '../../src/warehouse/migrations.ts'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'

const FOLDER = join(import.meta.dirname, '../../sql/migrations')

it('finds statements in spite of semicolons in quotes, dollar quotes and comments', () => {
  const text = `-- a; b\nselect 'x;''y' ; -- c;\ndo $$ begin; end $$;\n/* d; */ select "e;f"\n`
  expect(statementsIn(text)).toEqual([`select 'x;''y'`, 'do $$ begin; end $$', '/* d; */ select "e;f"'])
})

const STRENGTH = [
  'RowExclusiveLock',
  'ShareUpdateExclusiveLock',
  'ShareLock',
  'ShareRowExclusiveLock',
  'ExclusiveLock',
  'AccessExclusiveLock',
]
const nameOf = (lock: string) =>
  `${lock
    .split(' ')
    .map((word) => word[0] + word.slice(1).toLowerCase())
    .join('')}Lock`

/** With its schema, whatever the search path. */
const qualified = (oid: string) =>
  `(select format('%s.%s', n.nspname, q.relname) from pg_class q join pg_namespace n on n.oid = q.relnamespace where q.oid = ${oid})`

it('no statement of any migration locks a table that was there more strongly than the plan says', async () => {
  await using warehouse = await openWarehouse({ empty: true })
  const plan = await planMigration(warehouse.url)
  const files = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql'))
    .sort()
  expect([...new Set(plan.map(({ migration }) => `${migration}.sql`))]).toEqual(files)
  expect(await query(warehouse.url, "select from pg_namespace where nspname like 'intake%'")).toEqual([])

  const session = await connect(warehouse.url)
  const locks = async () => {
    const { rows } = await session.query<{ name: string; parent: string | null; mode: string }>(
      `select ${qualified('c.oid')} as name, ${qualified('i.inhparent')} as parent, l.mode
       from pg_locks l join pg_class c on c.oid = l.relation left join pg_inherits i on i.inhrelid = c.oid
       where l.pid = pg_backend_pid() and c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text like 'intake%'`,
    )
    return rows
  }
  const surprises: unknown[] = []
  let exact = 0
  for (const file of files) {
    const { rows: there } = await session.query<{ name: string }>(
      `select ${qualified('c.oid')} as name from pg_class c where relkind in ('r', 'p') and relnamespace::regnamespace::text like 'intake%'`,
    )
    const before = new Set(there.map(({ name }) => name))
    // As if only this migration was pending: what earlier ones created is there.
    const text = readFileSync(join(FOLDER, file), 'utf8')
    const own = plannedIn(text, new Set())
    const isUnknown = own.some(({ lock }) => lock === 'unknown')
    const { rows: indexes } = await session.query<{ name: string; table: string }>(
      `select ${qualified('indexrelid')} as name, ${qualified('indrelid')} as table from pg_index`,
    )
    const tableOf = new Map(indexes.map((index) => [index.name, index.table]))
    await session.query('begin')
    for (const statement of statementsIn(text)) await session.query(statement)
    for (const { name, parent, mode } of await locks()) {
      const at = STRENGTH.indexOf(mode)
      if (at < 0 || !before.has(name)) continue
      const predicted = own
        .map(({ table, lock }) => ({ table: tableOf.get(table ?? '') ?? table, lock }))
        .filter(({ table }) => table === name || table === parent)
        .map(({ lock }) => STRENGTH.indexOf(nameOf(lock)))
      if (predicted.includes(at)) exact += 1
      // Triggers write to other tables: a lock of writers, which disturbs neither readers nor writers.
      if (Math.max(0, ...predicted) < at && !isUnknown) surprises.push([file, name, mode])
    }
    await session.query('commit')
  }
  await session.end()
  expect(surprises).toEqual([])
  expect(exact).toBeGreaterThan(30)
})

/** Tables that grow with the records of a service. */
const GROWING =
  /^(?:intake\.(?!teams$)|intake_raw\.(?:records|record_history|inbox|export)|intake_ops\.(?:audit|runs|run_streams|dead_letters))/

it('no migration from 0126 on reads or writes all rows of a table that grows while it locks it, or refuses what an older version writes', () => {
  const breaches = (text: string) =>
    plannedIn(text, new Set()).filter(({ table, lock, is_long, statement }) => {
      const refuses =
        /^alter table .*\b(?:drop column|rename|set not null|add column \S+ \S+ not null(?!.* default))/
      if (refuses.test(statement.toLowerCase())) return true
      const isApart = runsInBatches(text) && !['SHARE', 'ACCESS EXCLUSIVE'].includes(lock)
      return is_long && GROWING.test(table ?? '') && !isApart
    })
  const found = readdirSync(FOLDER)
    .filter((name) => name > '0126' && name.endsWith('.sql'))
    .flatMap((name) =>
      breaches(readFileSync(join(FOLDER, name), 'utf8')).map(({ statement }) => [name, statement]),
    )
  expect(found).toEqual([])
  const examples = [
    'create index i on intake.patients (id)',
    '-- In batches\ncreate index i on intake.patients (id)',
    'update intake_raw.records set version = now()',
    'alter table intake_ops.runs drop column kind',
    'alter table intake.patients add column note text not null',
  ]
  for (const text of examples) expect(breaches(text), text).toHaveLength(1)
  const fine = [
    '-- In batches\ncreate index concurrently i on intake.patients (id)',
    '-- In batches\nupdate intake_raw.records set version = now()',
    `alter table intake.patients add column note text not null default ''`,
    'create table intake_ops.later (id int); create index i on intake_ops.later (id)',
  ]
  for (const text of fine) expect(breaches(text), text).toEqual([])
})

it.each([
  ['create table intake.a partition of intake.b for values in (1)', 'intake.b', 'ACCESS EXCLUSIVE', false],
  [
    'create unlogged table if not exists intake.a (b int references intake.b)',
    'intake.b',
    'SHARE ROW EXCLUSIVE',
    false,
  ],
  ['create table intake.a (b int)', null, 'none', false],
  ['create unique index concurrently a on intake.b (c)', 'intake.b', 'SHARE UPDATE EXCLUSIVE', true],
  ['create unique index a on intake.b (c)', 'intake.b', 'SHARE', true],
  ['alter table intake.b validate constraint c', 'intake.b', 'SHARE UPDATE EXCLUSIVE', true],
  ['alter table only intake.b alter column c set data type text', 'intake.b', 'ACCESS EXCLUSIVE', true],
  ['alter table intake.b alter column c type text', 'intake.b', 'ACCESS EXCLUSIVE', true],
  ['alter table intake.b add constraint d check (c > 0)', 'intake.b', 'ACCESS EXCLUSIVE', true],
  ['alter table intake.b add primary key (c)', 'intake.b', 'ACCESS EXCLUSIVE', true],
  ['alter table intake.b add constraint d unique (c)', 'intake.b', 'ACCESS EXCLUSIVE', true],
  ['alter table intake.b add foreign key (c) references intake.d', 'intake.b', 'ACCESS EXCLUSIVE', true],
  ['alter table if exists intake.b add column c int', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['alter sequence intake.b restart', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['alter view intake.b set (security_barrier = true)', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['drop index if exists intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['drop table intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['drop view if exists intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['drop materialized view intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['drop sequence intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['analyze intake.b', 'intake.b', 'SHARE UPDATE EXCLUSIVE', true],
  ['vacuum intake.b', 'intake.b', 'SHARE UPDATE EXCLUSIVE', true],
  ['truncate table intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['create policy a on intake.b using (true)', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['alter policy a on intake.b using (true)', 'intake.b', 'ACCESS EXCLUSIVE', false],
  ['drop policy a on intake.b', 'intake.b', 'ACCESS EXCLUSIVE', false],
  [
    'create or replace trigger a after insert on intake.b execute function c()',
    'intake.b',
    'SHARE ROW EXCLUSIVE',
    false,
  ],
  [
    'create trigger a after insert on intake.b execute function c()',
    'intake.b',
    'SHARE ROW EXCLUSIVE',
    false,
  ],
  ['insert into intake.b values (1)', 'intake.b', 'ROW EXCLUSIVE', false],
  ['update intake.b set c = 1', 'intake.b', 'ROW EXCLUSIVE', true],
  ['delete from intake.b', 'intake.b', 'ROW EXCLUSIVE', true],
  ['with d as (select 1) delete from intake.b', 'intake.b', 'ROW EXCLUSIVE', true],
  ['comment on table intake.b is null', 'intake.b', 'SHARE UPDATE EXCLUSIVE', false],
  ['comment on column intake.b.c is null', 'intake.b', 'SHARE UPDATE EXCLUSIVE', false],
  ['comment on view intake.b is null', 'intake.b', 'SHARE UPDATE EXCLUSIVE', false],
  ['comment on sequence intake.b is null', 'intake.b', 'SHARE UPDATE EXCLUSIVE', false],
  ['do $$ begin end $$', null, 'unknown', false],
  ['call intake_ops.p()', null, 'unknown', false],
  ['with a as (select 1) select intake_ops.f()', null, 'unknown', false],
  ['select intake_ops.f()', null, 'unknown', false],
  ['create function intake.f() returns int language sql return 1', null, 'none', false],
  ['grant select on intake.b to c', null, 'none', false],
])('of "%s" it says: %s, %s, long %s', (text, table, lock, is_long) => {
  for (const each of [text, text.toUpperCase()])
    expect(plannedIn(each, new Set())).toEqual([{ statement: each, table, lock, is_long }])
})

it('of tables that the same migrations create it says nothing', () => {
  const created = new Set<string>()
  const text =
    'create table intake.a (b int);\ncreate   index c on intake.a (b); create or replace view intake.d as select 1; alter view intake.d rename to e'
  expect(plannedIn(text, created).map(({ statement, lock }) => [statement, lock])).toEqual([
    ['create table intake.a (b int)', 'none'],
    ['create index c on intake.a (b)', 'none'],
    ['create or replace view intake.d as select 1', 'none'],
    ['alter view intake.d rename to e', 'none'],
  ])
  expect(plannedIn('drop table intake.a', created)).toMatchObject([{ lock: 'none' }])
})

it('a table that an earlier pending migration creates is locked for nobody in a later one; one that is there is', async () => {
  await using warehouse = await openWarehouse()
  const [creates, alters] = ['0152_slices', '0170_slices_waiting']
  const remove = (name: string) =>
    query(warehouse.url, `delete from intake_ops.migrations where name = '${name}' returning name`)
  const locks = async () =>
    (await planMigration(warehouse.url))
      .filter(({ migration, statement }) => migration === alters && !statement.startsWith('comment '))
      .map(({ statement, table, lock, rows }) => [statement.split(' ', 2).join(' '), table, lock, rows])
  expect(await planMigration(warehouse.url)).toEqual([])
  expect(await remove(alters)).toHaveLength(1)
  expect(await locks()).toEqual([
    ['alter table', 'intake_ops.slices', 'ACCESS EXCLUSIVE', 0],
    ['create index', 'intake_ops.slices', 'SHARE', 0],
  ])
  expect(await remove(creates)).toHaveLength(1)
  expect(await locks()).toEqual([
    ['alter table', null, 'none', null],
    ['create index', null, 'none', null],
  ])
})

it('dropping an index is planned as a lock on its table, with the rows of the table', async () => {
  await using warehouse = await openWarehouse()
  const migration = '0185_slices_of_other_runs'
  await query(
    warehouse.url,
    `delete from intake_ops.migrations where name = '${migration}';
     update pg_class set reltuples = 700 where oid = 'intake_ops.slices'::regclass;
     update pg_class set reltuples = 3 where oid = 'intake_ops.slices_unfinished'::regclass`,
  )
  const plan = await planMigration(warehouse.url)
  expect(plan.filter(({ statement }) => statement.startsWith('drop index'))).toMatchObject([
    { migration, table: 'intake_ops.slices', lock: 'ACCESS EXCLUSIVE', rows: 700 },
  ])
})

it('the command prints them with the rows of the tables, and applies nothing', async () => {
  await using warehouse = await openWarehouse()
  const [removed] = await query<{ name: string }>(
    warehouse.url,
    `delete from intake_ops.migrations where name = '0060_pending_by_team' returning name`,
  )
  // A table in parts has the rows of all of them, once, and of one that was never analyzed none.
  await query(
    warehouse.url,
    `select intake_raw.add_inbox_day('2026-01-01', 1), intake_raw.add_inbox_day('2026-01-02', 1);
     update pg_class set reltuples = 100000 where oid in ('intake_raw.inbox'::regclass, 'intake_raw.inbox_rest'::regclass);
     update pg_class set reltuples = -1 where oid = 'intake_raw.inbox_20260101'::regclass;
     update pg_class set reltuples = 25000 where oid = 'intake_raw.inbox_20260102'::regclass`,
  )
  const env = { DATABASE_URL: warehouse.url }
  const { statements } = JSON.parse((await runCommand(['migrate', '--plan', '--json'], env)).stdout)
  const long = { rows: 125_000, is_long: true, seconds: 3, in_batches: false }
  expect(statements.filter(({ lock }: { lock: string }) => lock === 'SHARE')).toEqual([
    expect.objectContaining({ migration: removed!.name, table: 'intake_raw.inbox', ...long }),
    expect.objectContaining({ migration: removed!.name, table: 'intake_raw.inbox', ...long }),
  ])
  const text = await runCommand(['migrate', '--plan'], env, { columns: 80 })
  for (const line of text.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  expect((await runCommand(['migrate', '--status'], env)).code).toBe(4)
})
