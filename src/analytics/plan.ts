/**
 * The plan of a migration: the pending statements, the locks that they take on existing tables, and how many rows these
 * have.
 *
 * Invariant: only reads. A lock is never weaker than predicted; a test compares the prediction with the locks that
 * every migration takes. A statement whose effect is decided while it runs has the lock `unknown`.
 */
import { sql } from 'kysely'
import { openSession } from '../warehouse/connect.ts'
import { runsInBatches, sqlFile, statementsIn } from '../warehouse/migrations.ts'
import { migrationStatus } from './migrate.ts'

export interface PlannedStatement {
  readonly migration: string
  /** In one line. */
  readonly statement: string
  /** The table that is locked; null for none that is there before. */
  readonly table: string | null
  readonly lock: Lock
  /** Estimated rows of the table; null where nothing is locked. */
  readonly rows: number | null
  /** Whether every row is read or written while the lock is held. */
  readonly is_long: boolean
  /** Whether it runs in portions that commit, outside the transaction of the others. */
  readonly in_batches: boolean
  /** Estimated time during which the rows are read or written. */
  readonly seconds: number
}

/** A disk of the last ten years rewrites more; with indexes and other load, hardly fewer. */
const ROWS_PER_SECOND = 50_000

export type Lock =
  | 'none'
  | 'unknown'
  | 'ROW EXCLUSIVE'
  | 'SHARE UPDATE EXCLUSIVE'
  | 'SHARE'
  | 'SHARE ROW EXCLUSIVE'
  | 'ACCESS EXCLUSIVE'

export async function planMigration(url: string): Promise<readonly PlannedStatement[]> {
  const { pending } = await migrationStatus(url)
  const plan: Omit<PlannedStatement, 'rows' | 'seconds'>[] = []
  const created = new Set<string>()
  for (const migration of pending) {
    const text = await sqlFile(`migrations/${migration}.sql`)
    const in_batches = runsInBatches(text)
    plan.push(...plannedIn(text, created).map((each) => ({ migration, ...each, in_batches })))
  }
  const tables = [...new Set(plan.flatMap(({ table }) => (table === null ? [] : [table])))]
  await using session = await openSession({ url, purpose: 'migrate --plan' })
  const { rows } = await sql<{ name: string; locked: string; rows: number }>`
    with named as (
      select given.name, coalesce(index.indrelid, to_regclass(given.name)) as oid
      from unnest(${tables}::text[]) as given (name)
      left join pg_index index on index.indexrelid = to_regclass(given.name)
    )
    select name, coalesce((
        select format('%s.%s', schema.nspname, own.relname)
        from pg_class own join pg_namespace schema on schema.oid = own.relnamespace where own.oid = named.oid
      ), name) as locked, coalesce((
      select sum(greatest(each.reltuples, 0)) from pg_class each
      where each.relkind <> 'p'
        and (each.oid = named.oid or each.oid in (select inhrelid from pg_inherits where inhparent = named.oid))
    ), 0)::float8 as rows
    from named`.execute(session.db)
  const found = new Map(rows.map((row) => [row.name, row]))
  return plan.map((each) => {
    const { locked, rows: count } = found.get(each.table ?? '') ?? { locked: null, rows: null }
    const seconds = each.is_long ? Math.round((count ?? 0) / ROWS_PER_SECOND) : 0
    return { ...each, table: locked, rows: count, seconds }
  })
}

/** `created` collects what the statements create: locks on it disturb nobody. An index stands for its table. */
export function plannedIn(
  text: string,
  created: Set<string>,
): readonly Omit<PlannedStatement, 'migration' | 'rows' | 'in_batches' | 'seconds'>[] {
  return statementsIn(text).map((statement) => ({
    ...effectOf(statement, created),
    statement: statement.replace(/\s+/g, ' '),
  }))
}

type Rule = readonly [pattern: RegExp, lock: Lock, isLong?: boolean]

/** The first that fits; its group is the table. */
const RULES: readonly Rule[] = [
  [/^create (?:unlogged )?table (?:if not exists )?[\w.]+ partition of ([\w.]+)/, 'ACCESS EXCLUSIVE'],
  [/^create (?:unlogged )?table [\s\S]*?references ([\w.]+)/, 'SHARE ROW EXCLUSIVE'],
  [/^create (?:unique )?index concurrently[\s\S]*? on ([\w.]+)/, 'SHARE UPDATE EXCLUSIVE', true],
  [/^create (?:unique )?index[\s\S]*? on ([\w.]+)/, 'SHARE', true],
  [
    /^alter table (?:only )?([\w.]+)\s+(?:validate constraint|set statistics)/,
    'SHARE UPDATE EXCLUSIVE',
    true,
  ],
  [
    /^alter table (?:only )?([\w.]+)[\s\S]*?(?:alter column \w+ (?:set data )?type|add (?:constraint \w+ )?(?:check|primary|unique|foreign))/,
    'ACCESS EXCLUSIVE',
    true,
  ],
  [/^alter (?:table|sequence|view) (?:if exists )?(?:only )?([\w.]+)/, 'ACCESS EXCLUSIVE'],
  [/^drop (?:table|view|materialized view|index|sequence) (?:if exists )?([\w.]+)/, 'ACCESS EXCLUSIVE'],
  [/^(?:analyze|vacuum) ([\w.]+)/, 'SHARE UPDATE EXCLUSIVE', true],
  [/^truncate (?:table )?([\w.]+)/, 'ACCESS EXCLUSIVE'],
  [/^(?:create|alter|drop) policy \w+ on ([\w.]+)/, 'ACCESS EXCLUSIVE'],
  [/^create (?:or replace )?trigger [\s\S]*? on ([\w.]+)/, 'SHARE ROW EXCLUSIVE'],
  [/^insert into ([\w.]+)/, 'ROW EXCLUSIVE'],
  [/^(?:with [\s\S]*?)?(?:update|delete from) ([\w.]+)/, 'ROW EXCLUSIVE', true],
  [/^comment on (?:table|view|sequence) ([\w.]+)/, 'SHARE UPDATE EXCLUSIVE'],
  [/^comment on column ([\w.]+)\.\w+/, 'SHARE UPDATE EXCLUSIVE'],
  [/^(?:do|call|with|select)\b/, 'unknown'],
]

function effectOf(
  statement: string,
  created: Set<string>,
): Pick<PlannedStatement, 'table' | 'lock' | 'is_long'> {
  const text = statement.toLowerCase()
  const made =
    /^create (?:unlogged )?(?:table|(?:or replace )?view|sequence) (?:if not exists )?([\w.]+)/.exec(
      text,
    )?.[1]
  const rule = RULES.find(([pattern]) => pattern.test(text))
  const table = rule?.[0].exec(text)?.[1] ?? null
  if (made !== undefined) created.add(made)
  if (rule === undefined || (table !== null && created.has(table)))
    return { table: null, lock: 'none', is_long: false }
  return { table, lock: rule[1], is_long: rule[2] === true }
}
