/**
 * Records set aside (laws 4 and 9): kept whole in intake_raw.set_aside, described without a value in
 * intake_ops.dead_letters. Meeting the same thing again counts it and makes no second one.
 */
import { createHash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { StreamName, StreamOrInbox } from '../core/streams.ts'
import type { DeadLetter } from '../normalize/dead-letter.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { withoutErasedDeadLetters } from './erasures/dead-letters.ts'

/**
 * Writes the dead letters of a batch, in the batch's own transaction; those of erased patients are none, and what was
 * discarded before stays so. Returns how many wait.
 */
export async function storeDeadLetters(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly stream: StreamOrInbox; readonly runId: string | null },
  came: readonly DeadLetter[],
): Promise<number> {
  const letters = await withoutErasedDeadLetters(db, place, came)
  let written = 0
  for (const letter of letters) {
    const body = typeof letter.body === 'string' ? Buffer.from(letter.body) : letter.body
    const fingerprint = fingerprintOf(letter, body)
    if (await wasDiscarded(db, place, fingerprint)) continue
    written += 1
    const { id } = await db
      .insertInto('intake_ops.dead_letters')
      .values({
        team_id: place.teamId,
        stream: place.stream,
        record_id: letter.recordId,
        fingerprint,
        origin: letter.origin,
        reason: letter.reason,
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

/** A person has decided that it needs nobody: it is counted, and waits no more. */
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

/** Ids of records that earlier runs set aside and that wait still. */
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
 * After a complete scan, or after these records were asked for: what was no longer met needs nobody, except of records
 * that could not be had.
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
    .where('stream', 'in', [...streams])
    .where('status', '=', 'waiting')
    .executeTakeFirstOrThrow()
  return Number(count)
}
