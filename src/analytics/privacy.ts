/**
 * Measures the rules of the two tiers for readers: for each view, every column by its rule, values that too few people
 * share, and how many people share a description.
 *
 * Invariant: a column without a rule counts as a broken rule. It reads what a reader of all teams sees; no result
 * contains a value.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'
import {
  DESCRIPTION,
  LIMITED,
  MIN_PEOPLE,
  NO_FEW,
  type Rule,
  SAFE_HARBOR,
  SHARED,
  type Shared,
  WIDE,
} from './privacy-rules.ts'

export interface ColumnReport {
  readonly column: string
  readonly rule: string
  /** Rows that break the rule, and groups whose difference from the whole is too small. */
  readonly broken: number
  /** Values of fewer than `MIN_PEOPLE`; null where it is not a value that people share. */
  readonly values_under: number | null
}

export interface ViewReport {
  readonly view: string
  readonly rows: number
  readonly columns: readonly ColumnReport[]
}

export interface TierReport {
  readonly schema: string
  readonly tier: 'limited data set' | 'safe harbor'
  readonly role: string
  readonly views: readonly ViewReport[]
  /**
   * Of descriptions of people. `k` is the size of the smallest group that shares one; null without a description. Wide views
   * describe nobody, but their rows can be joined with those of intake_analytics.patients.
   */
  readonly k_anonymity: {
    readonly columns: readonly string[]
    readonly k: number | null
    readonly groups: number
    readonly people_in_groups_under: number
  }
  readonly broken: number
}

const TIERS = [
  { schema: 'intake_analytics', tier: 'limited data set', role: 'intake_analyst', rules: LIMITED },
  { schema: 'intake_safe_harbor', tier: 'safe harbor', role: 'intake_researcher', rules: SAFE_HARBOR },
  { schema: 'intake_forms', tier: 'limited data set', role: 'intake_analyst', rules: WIDE },
  { schema: 'intake_exports', tier: 'limited data set', role: 'intake_analyst', rules: WIDE },
] as const

interface Column {
  readonly view: string
  readonly name: string
  readonly type: string
}

/** In one transaction, with a copy of each view that is measured; needs the right to create temporary tables. */
export async function measurePrivacy(db: Kysely<Warehouse>): Promise<readonly TierReport[]> {
  return await db.transaction().execute(async (within) => {
    const tiers: TierReport[] = []
    for (const tier of TIERS) tiers.push(await measureTier(within, tier))
    return tiers
  })
}

async function measureTier(
  db: Kysely<Warehouse>,
  { schema, tier, role, rules }: (typeof TIERS)[number],
): Promise<TierReport> {
  const { rows: columns } = await sql<Column>`
    select c.relname as view, a.attname as name, format_type(a.atttypid, null) as type
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = ${schema}::regnamespace and c.relkind in ('r', 'v', 'm') order by c.relname, a.attnum`.execute(
    db,
  )
  const views: ViewReport[] = []
  let sharing: TierReport['k_anonymity'] | undefined
  for (const view of new Set(columns.map((column) => column.view))) {
    const own = columns.filter((column) => column.view === view)
    await sql`create temporary table measured on commit drop as select * from ${sql.table(`${schema}.${view}`)}`.execute(
      db,
    )
    const shared = rules === WIDE ? wideShared(own) : (SHARED[view] ?? [])
    views.push(await measureView(db, view, own, rules, shared, tier === 'safe harbor'))
    if (view === 'patients') sharing = await measureSharing(db)
    await sql`drop table measured`.execute(db)
  }
  const k_anonymity = sharing ?? { columns: [], k: null, groups: 0, people_in_groups_under: 0 }
  const inViews = views.flatMap((view) => view.columns).reduce((sum, { broken }) => sum + broken, 0)
  const broken = tier === 'safe harbor' ? inViews + k_anonymity.people_in_groups_under : inViews
  return { schema, tier, role, views, k_anonymity, broken }
}

async function measureView(
  db: Kysely<Warehouse>,
  view: string,
  columns: readonly Column[],
  rules: readonly Rule[],
  sharing: readonly Shared[],
  isStrict: boolean,
): Promise<ViewReport> {
  const { rows } = await sql<{ rows: number }>`select count(*)::int as rows from measured`.execute(db)
  const reports: ColumnReport[] = []
  for (const { name, type } of columns) {
    const rule = rules.find((each) => each.columns.test(`${view}.${name} ${type}`))
    const { rows: counted } = await sql<{ broken: number }>`
      select count(*)::int as broken from (select m.${sql.ref(name)} as v, m as own from measured m) each
      where v is not null and (${sql.raw(rule?.breaks ?? 'true')})`.execute(db)
    const shared = sharing.find(([names]) => names.includes(name))
    const under =
      name === 'tags' && type === 'text[]'
        ? await tagsUnder(db)
        : shared === undefined
          ? null
          : await valuesUnder(db, name, shared[1])
    const few =
      isStrict && shared !== undefined && NO_FEW.test(`${view}.${name}`)
        ? await fewWithout(db, name, shared[1])
        : 0
    reports.push({
      ...{ column: name, rule: rule?.rule ?? 'no rule allows it' },
      broken: counted[0]!.broken + few + (isStrict ? (under ?? 0) : 0),
      values_under: under,
    })
  }
  return { view, rows: rows[0]!.rows, columns: reports }
}

/** Answers of one value, in the columns of questions. */
function wideShared(columns: readonly Column[]): readonly Shared[] {
  const names = columns
    .filter(({ view, name, type }) => {
      const rule = WIDE.find((each) => each.columns.test(`${view}.${name} ${type}`))
      return rule !== undefined && WIDE.indexOf(rule) > 1 && ['text', 'boolean', 'integer'].includes(type)
    })
    .map(({ name }) => name)
  return [[names, []]]
}

const listOf = (names: readonly string[]) => sql.join(['team_id', ...names].map((name) => sql.ref(name)))

async function valuesUnder(
  db: Kysely<Warehouse>,
  column: string,
  within: readonly string[],
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from (
      select from measured where ${sql.ref(column)} is not null
      group by ${listOf([...within, column])} having count(distinct patient) < ${MIN_PEOPLE}
    ) own`.execute(db)
  return rows[0]!.count
}

/** Tags that few people have, or few lack. */
async function tagsUnder(db: Kysely<Warehouse>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from (
      select from measured m cross join unnest(m.tags) as own (tag)
      join (select team_id, count(distinct patient) as people from measured group by team_id) whole using (team_id)
      group by team_id, own.tag, whole.people
      having count(distinct m.patient) < ${MIN_PEOPLE}
        or whole.people - count(distinct m.patient) between 1 and ${MIN_PEOPLE - 1}
    ) own`.execute(db)
  return rows[0]!.count
}

/** Groups in which some have a value, and those without one are few. */
async function fewWithout(db: Kysely<Warehouse>, column: string, within: readonly string[]): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from (
      select from measured where coalesce(${sql.join(within.map((name) => sql.ref(name)))}) is not null
      group by ${listOf(within)}
      having count(${sql.ref(column)}) > 0
        and count(distinct patient) filter (where ${sql.ref(column)} is null) between 1 and ${MIN_PEOPLE - 1}
    ) own`.execute(db)
  return rows[0]!.count
}

async function measureSharing(db: Kysely<Warehouse>): Promise<TierReport['k_anonymity']> {
  const { rows } = await sql<{ k: number | null; groups: number; few: number }>`
    select min(people)::int as k, count(*)::int as groups,
      coalesce(sum(people) filter (where people < ${MIN_PEOPLE}), 0)::int as few
    from (
      select count(*) as people from measured
      where num_nonnulls(${sql.join(DESCRIPTION.map((name) => sql.ref(name)))}) > 0
      group by ${listOf(DESCRIPTION)}
    ) own`.execute(db)
  const { k, groups, few } = rows[0]!
  return { columns: DESCRIPTION, k, groups, people_in_groups_under: few }
}
