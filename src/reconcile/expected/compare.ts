/**
 * Compares the expected tables with the tables themselves.
 *
 * Invariant: `differing` has a record exactly if a row of one side is not, with equal cells, on the other: it covers
 * missing and extra rows, children without a parent and parents without a record.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import type { ExpectedTable } from './tables.ts'

/** The part of a team's stream that is compared. */
export type Scope =
  | { readonly kind: 'all' }
  /** Ids above `after`, up to `to`; null for no bound. */
  | { readonly kind: 'range'; readonly after: string | null; readonly to: string | null }
  | { readonly kind: 'ids'; readonly ids: readonly string[] }

export interface Comparison {
  readonly table: ExpectedTable
  /** Columns that must be equal. */
  readonly columns: readonly string[]
  /** Recorded as `field` of rows that differ; null for the names of the columns. */
  readonly label: string | null
  /** Condition on the rows of the table itself, whose alias is `stored`. */
  readonly stored: RawBuilder<boolean>
}

const FOUND = sql.table('pg_temp.differing')

/** Creates or empties `differing`. */
export async function clearFound({ db }: Session): Promise<void> {
  await sql`create temporary table if not exists ${FOUND} (id text not null, field text not null)`.execute(db)
  await sql`truncate ${FOUND}`.execute(db)
}

/** Adds the differences of one table to `differing`. */
export async function compareTable({ db }: Session, comparison: Comparison, scope: Scope): Promise<void> {
  const { table, columns, label, stored } = comparison
  const { parent, key } = table
  const cells = (side: string) => sql.join(columns.map((name) => sql.ref(`${side}.${name}`)))
  const same = [parent, ...key].map((name) => sql`stored.${sql.ref(name)} = expected.${sql.ref(name)}`)
  const fields = columns.map(
    (name) =>
      sql`case when ${sql.ref(`expected.${name}`)} is distinct from ${sql.ref(`stored.${name}`)} then ${sql.lit(name)} end`,
  )
  const differs =
    label === null
      ? sql`unnest(array_remove(array[${sql.join(fields)}], null))`
      : sql`${sql.lit(label)}::text`
  await sql`
    insert into ${FOUND} (id, field)
    select coalesce(expected.${sql.ref(parent)}, stored.${sql.ref(parent)}), ${differs}
    from (select * from ${sql.table(table.expected)} own where ${within('own', parent, scope)}) expected
    full join (select * from ${sql.table(table.name)} stored where ${stored} and ${within('stored', parent, scope)}) stored
      on ${sql.join(same, sql` and `)}
    where row(${cells('expected')}) is distinct from row(${cells('stored')})`.execute(db)
}

function within(side: string, parent: string, scope: Scope): RawBuilder<unknown> {
  const id = sql.ref(`${side}.${parent}`)
  if (scope.kind === 'all') return sql`true`
  if (scope.kind === 'ids') return sql`${id} = any(${scope.ids}::text[])`
  const bounds = [
    ...(scope.after === null ? [] : [sql`${id} > ${scope.after}`]),
    ...(scope.to === null ? [] : [sql`${id} <= ${scope.to}`]),
  ]
  return bounds.length === 0 ? sql`true` : sql.join(bounds, sql` and `)
}

/** True for rows of the team. */
export function ofTeam(teamId: number): RawBuilder<boolean> {
  return sql<boolean>`stored.team_id = ${teamId}`
}
