/**
 * Adds the problems and drift of a batch to the counts in intake_ops.
 *
 * Invariant: they are counted in the batch's own transaction, once if it commits and not at all otherwise; a path is
 * at most 200 characters long and never a value.
 */
import { type Kysely, sql } from 'kysely'
import type { StreamOrInbox } from '../core/envelope.ts'
import type { Findings } from '../normalize/lines.ts'
import type { Warehouse } from '../warehouse/tables.ts'

export async function recordFindings(
  db: Kysely<Warehouse>,
  stream: StreamOrInbox,
  findings: Findings,
): Promise<void> {
  const problems = [...findings.problemsAt].sort().map(([key, count]) => {
    const [team_id, path, reason] = JSON.parse(key) as [number, string, string]
    return { team_id, stream, path: shortened(path), reason, count }
  })
  if (problems.length > 0) {
    await db
      .insertInto('intake_ops.problems')
      .values(merged(problems, (row) => `${row.team_id}\0${row.path}\0${row.reason}`))
      .onConflict((conflict) =>
        conflict.columns(['team_id', 'stream', 'path', 'reason']).doUpdateSet({
          count: sql<string>`intake_ops.problems.count + excluded.count`,
          last_seen: sql<Date>`now()`,
        }),
      )
      .execute()
  }
  const drift = [...findings.driftAt].sort().map(([key, count]) => {
    const [team_id, path, type] = JSON.parse(key) as [number, string, string]
    return { team_id, stream, path: shortened(path), type, count }
  })
  if (drift.length > 0) {
    await db
      .insertInto('intake_ops.drift')
      .values(merged(drift, (row) => `${row.team_id}\0${row.path}\0${row.type}`))
      .onConflict((conflict) =>
        conflict.columns(['team_id', 'stream', 'path', 'type']).doUpdateSet({
          count: sql<string>`intake_ops.drift.count + excluded.count`,
          last_seen: sql<Date>`now()`,
        }),
      )
      .execute()
  }
}

/** Paths are part of an index key, and a source whose field names are data must not fill the table with them. */
function shortened(path: string): string {
  return path.length > 200 ? `${path.slice(0, 199).toWellFormed()}…` : path
}

function merged<Row extends { count: number }>(rows: readonly Row[], keyOf: (row: Row) => string): Row[] {
  const byKey = new Map<string, Row>()
  for (const row of rows) {
    const known = byKey.get(keyOf(row))
    byKey.set(keyOf(row), known === undefined ? row : { ...known, count: known.count + row.count })
  }
  return [...byKey.values()]
}
