/**
 * Dead letters (laws 4 and 9), what settles them, and the counts of problems and drift.
 *
 * Invariant: a dead letter is stored whole in intake_raw.set_aside and described without a value in
 * intake_ops.dead_letters; one that occurs again is counted, not stored twice.
 */
import { createHash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { StreamName, StreamOrInbox } from '../core/envelope.ts'
import type { Findings } from '../normalize/lines.ts'
import type { DeadLetter } from '../normalize/read-record.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { withoutErasedDeadLetters } from './erased-dead-letters.ts'

/**
 * Stores the dead letters of a batch, in the batch's own transaction. Leaves out those of erased patients; a discarded one
 * stays discarded. Returns the number that are waiting.
 */
export async function storeDeadLetters(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamOrInbox; readonly runId: string | null },
  deadLetters: readonly DeadLetter[],
): Promise<number> {
  const kept = await withoutErasedDeadLetters(db, place, deadLetters)
  let written = 0
  for (const deadLetter of kept) {
    const body = typeof deadLetter.body === 'string' ? Buffer.from(deadLetter.body) : deadLetter.body
    const fingerprint = fingerprintOf(deadLetter, body)
    if (await wasDiscarded(db, place, fingerprint)) continue
    written += 1
    const { id } = await db
      .insertInto('intake_ops.dead_letters')
      .values({
        team_id: place.teamId,
        stream: place.stream,
        record_id: deadLetter.recordId,
        fingerprint,
        origin: deadLetter.origin,
        reason: deadLetter.reason,
        last_run_id: place.runId,
        seen: 1,
      })
      .onConflict((conflict) =>
        conflict
          .columns(['team_id', 'stream', 'fingerprint'])
          .where('status', '=', sql.lit('waiting'))
          .doUpdateSet((eb) => ({
            seen: sql<string>`${eb.ref('intake_ops.dead_letters.seen')} + 1`,
            last_seen_at: sql<Date>`now()`,
            last_run_id: place.runId,
          })),
      )
      .returning('id')
      .executeTakeFirstOrThrow()
    await db
      .insertInto('intake_raw.set_aside')
      .values({ dead_letter_id: id, body })
      .onConflict((conflict) => conflict.column('dead_letter_id').doNothing())
      .execute()
  }
  return written
}

/** Counts a dead letter that a person has discarded; false if there is none. */
async function wasDiscarded(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamOrInbox; readonly runId: string | null },
  fingerprint: string,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('intake_ops.dead_letters')
    .set((eb) => ({
      seen: sql<string>`${eb.ref('intake_ops.dead_letters.seen')} + 1`,
      last_seen_at: sql<Date>`now()`,
      last_run_id: place.runId,
    }))
    .where('team_id', '=', place.teamId)
    .where('stream', '=', place.stream)
    .where('fingerprint', '=', fingerprint)
    .where('status', '=', sql.lit('discarded'))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

function fingerprintOf({ recordId, reason }: DeadLetter, body: Buffer): string {
  return createHash('sha256')
    .update(JSON.stringify([recordId, reason]))
    .update(body)
    .digest('hex')
}

/** Ids of records with waiting dead letters of earlier runs. */
export async function waitingIds(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamName; readonly runId: string },
  most: number,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('intake_ops.dead_letters')
    .select('record_id')
    .distinct()
    .where('team_id', '=', place.teamId)
    .where('stream', '=', place.stream)
    .where('status', '=', 'waiting')
    .where('origin', 'like', 'run:%')
    .where('last_run_id', 'is distinct from', place.runId)
    .where('record_id', 'is not', null)
    .limit(most)
    .execute()
  return rows.flatMap(({ record_id }) => (record_id === null ? [] : [record_id]))
}

/**
 * Resolves dead letters that did not occur again in a complete scan, or when the records `ids` were fetched. Leaves those
 * of the records `except`, which could not be fetched.
 */
export async function resolveUnmet(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamName; readonly runId: string },
  { ids, except = [] }: { readonly ids?: readonly string[]; readonly except?: readonly string[] } = {},
): Promise<void> {
  if (ids?.length === 0) return
  await db
    .updateTable('intake_ops.dead_letters')
    .set({ status: 'resolved', settled_at: sql<Date>`now()` })
    .where('team_id', '=', place.teamId)
    .where('stream', '=', place.stream)
    .where('status', '=', 'waiting')
    .where('origin', 'like', 'run:%')
    .where('last_run_id', 'is distinct from', place.runId)
    .$if(ids !== undefined, (query) => query.where('record_id', 'in', [...ids!]))
    .where(sql<boolean>`(record_id is null or record_id <> all(${except}::text[]))`)
    .execute()
}

/** Dead letters of these streams that wait for a person. */
export async function countWaiting(
  db: Kysely<Warehouse>,
  teamId: number,
  streams: readonly StreamName[],
): Promise<number> {
  const { count } = await db
    .selectFrom('intake_ops.dead_letters')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .where('team_id', '=', teamId)
    .where(sql<boolean>`stream = any (${streams}::text[])`)
    .where('status', '=', 'waiting')
    .executeTakeFirstOrThrow()
  return Number(count)
}

/**
 * Adds the problems and drift of a batch to the counts in intake_ops, in the batch's own transaction: once if it commits,
 * and not at all otherwise. A path is at most 200 characters long and never a value.
 */
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
