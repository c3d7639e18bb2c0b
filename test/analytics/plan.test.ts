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

it('the command prints them with the rows of the tables, and applies nothing', async () => {
  await using warehouse = await openWarehouse()
  const [removed] = await query<{ name: string }>(
    warehouse.url,
    `delete from intake_ops.migrations where name = '0060_pending_by_team' returning name`,
  )
  const env = { DATABASE_URL: warehouse.url }
  const { statements } = JSON.parse((await runCommand(['migrate', '--plan', '--json'], env)).stdout)
  expect(statements.filter(({ lock }: { lock: string }) => lock === 'SHARE')).toEqual([
    expect.objectContaining({ migration: removed!.name, table: 'intake_raw.inbox', rows: 0, is_long: true }),
    expect.objectContaining({ migration: removed!.name, table: 'intake_raw.inbox', rows: 0, is_long: true }),
  ])
  const text = await runCommand(['migrate', '--plan'], env, { columns: 80 })
  for (const line of text.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  expect((await runCommand(['migrate', '--status'], env)).code).toBe(4)
})
