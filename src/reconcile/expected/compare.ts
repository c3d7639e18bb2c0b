/**
 * The expected tables beside the tables themselves: which records differ, and in what.
 *
 * Invariant: a record is noted in `differing` exactly when a row of one side is not, with equal cells, in the other:
 * rows that are missing, rows too many, children without a parent and a parent without a record are all there.
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
  /** Those of its columns that have to agree. */
  readonly columns: readonly string[]
  /** What is noted of rows that differ; null for the names of the columns. */
  readonly label: string | null
  /** Which rows of the table itself count, seen as `held`. */
  readonly held: RawBuilder<boolean>
}

const FOUND = sql.table('pg_temp.differing')

/** Creates the table of what was found, or empties it. */
export async function clearFound({ db }: Session): Promise<void> {
  await sql`create temporary table if not exists ${FOUND} (id text not null, field text not null)`.execute(db)
  await sql`truncate ${FOUND}`.execute(db)
}

/** Adds what differs in one table to `differing`. */
export async function compareTable({ db }: Session, comparison: Comparison, scope: Scope): Promise<void> {
  const { table, columns, label, held } = comparison
  const { parent, key } = table
  const cells = (side: string) => sql.join(columns.map((name) => sql.ref(`${side}.${name}`)))
  const same = [parent, ...key].map((name) => sql`held.${sql.ref(name)} = expected.${sql.ref(name)}`)
  const fields = columns.map(
    (name) =>
      sql`case when ${sql.ref(`expected.${name}`)} is distinct from ${sql.ref(`held.${name}`)} then ${sql.lit(name)} end`,
  )
  const differs =
    label === null
      ? sql`unnest(array_remove(array[${sql.join(fields)}], null))`
      : sql`${sql.lit(label)}::text`
  await sql`
    insert into ${FOUND} (id, field)
    select coalesce(expected.${sql.ref(parent)}, held.${sql.ref(parent)}), ${differs}
    from (select * from ${sql.table(table.expected)} own where ${within('own', parent, scope)}) expected
    full join (select * from ${sql.table(table.name)} held where ${held} and ${within('held', parent, scope)}) held
      on ${sql.join(same, sql` and `)}
    where row(${cells('expected')}) is distinct from row(${cells('held')})`.execute(db)
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
  return sql<boolean>`held.team_id = ${teamId}`
}
