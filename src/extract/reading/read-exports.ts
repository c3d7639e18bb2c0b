/**
 * Reads the exports of a team: their list, then the file of each.
 *
 *     list ─► entries ─► loaders                      (as any stream)
 *       └──► every id ─► file ─► spool ─► the same? ─► nothing
 *                                  └────── another ──► columns, rows, cells
 *
 * Invariant: the files are read by sessions of their own, two at most, so that a large file delays no other stream. Each
 * file is loaded whole or not at all, so a run that is killed anywhere leaves tables that the next run completes.
 */
import { sql } from 'kysely'
import { type Envelope, supersedes } from '../../core/envelope.ts'
import { type Instant, instantOf, microsOf } from '../../core/time.ts'
import { resolveUnmet } from '../../load/dead-letters.ts'
import { type StoredExport, storedExports } from '../../load/exports/export-file.ts'
import { joinProblems, matchQuestions } from '../../load/exports/file-problems.ts'
import { openLoaders } from '../../load/merge/loaders.ts'
import { assertOwned, settleSlice } from '../../load/slice.ts'
import { readRecord, tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type FetchedStates, settleConflicts } from '../conflicts/settle-conflicts.ts'
import { openBatcher } from '../scan/batcher.ts'
import { GUARD_ROWS, GUARD_SHARE } from '../scan/deletes.ts'
import type { ScanReport } from '../scan/scan.ts'
import { countLive } from '../scan/seen-ids.ts'
import { massDeleteNote, NO_NOTE, type SliceNote, type SliceOptions, unstableNote } from '../slice-note.ts'
import type { Source } from '../source.ts'
import { readFile } from './read-export-file.ts'
import { scanUntilStable } from './read-list.ts'

/** Each download occupies one of the client's requests in flight. */
const FILES_AT_ONCE = 2

export async function readExports(
  source: Source,
  session: Session,
  options: SliceOptions,
): Promise<SliceNote> {
  const { stream, taken, failedFetches } = source
  const { last, all, conflicting } = await scanUntilStable(source, session, options)
  // An entry that reappeared may narrowly lose to its tombstone: the conflict is resolved before its file is read.
  if (options.migrated) await settleConflicts(source, session, conflicting, refetchFromList)
  await readFiles(source, session, await last.seenIds.ids(), options)
  let note: SliceNote = last.stable ? NO_NOTE : unstableNote(all)
  if (last.stable && options.migrated) note = await deleteMissedTwice(source, session, last, options)
  if (options.dry) return note
  if (last.stable) {
    const place = { teamId: taken.teamId, stream: stream.name, runId: taken.runId }
    await resolveUnmet(session.db, place, { except: [...failedFetches.later.keys()] })
  }
  // An entry or a form may have changed although its file did not.
  await joinProblems(session.db, taken.teamId)
  await matchQuestions(session.db, taken.teamId)
  await settleSlice(session.db, taken, { scanned_at: last.startedAt, steady: last.stable })
  return note
}

async function readFiles(
  source: Source,
  session: Session,
  ids: readonly string[],
  { dry, migrated }: SliceOptions,
): Promise<void> {
  const { client, clock, logger, url, taken, team, stream } = source
  const none: ReadonlyMap<string, StoredExport> = new Map()
  const stored = migrated ? await storedExports(session.db, taken.teamId, ids) : none
  // Leaves one request in flight to the other streams.
  const count = Math.max(1, Math.min(FILES_AT_ONCE, client.concurrency - 1))
  await using readers = openLoaders({
    url,
    clock,
    count,
    onRetry: (code, attempt) =>
      logger.warn({ team, stream: stream.name, code, attempt }, 'reading an export again after a failure'),
  })
  let failure: { readonly error: unknown } | null = null
  await Promise.all(
    ids.map(async (id) => {
      // A dead-lettered entry has no row that cells could belong to.
      if (!dry && !stored.has(id)) return
      try {
        await readers.run(async (reader) => {
          if (failure === null) await readFile(source, reader, id, stored.get(id), dry)
        })
      } catch (error) {
        failure ??= { error }
      }
    }),
  )
  if (failure !== null) throw (failure as { readonly error: unknown }).error
}

/**
 * Reads the list once more, for entries that cannot be fetched by id. Only the wanted entries stay in memory, each in its
 * greatest state; an entry that is no longer listed is not in the result.
 */
export async function relist(
  source: Source,
  ids: readonly string[],
  purpose: 'refetch' | 'repair',
): Promise<readonly Envelope[]> {
  const { client, stream, taken, serviceClock, meter, signal } = source
  const place = { teamId: taken.teamId, stream, origin: `run:${taken.runId} ${purpose}` }
  const wanted = new Set(ids)
  const found = new Map<string, Envelope>()
  const resource = stream.listedAs ?? stream.name
  for await (const page of client.pages(client.pathOf(stream.list!), { resource, meter, signal })) {
    serviceClock.sample(page)
    const observedAt = serviceClock.observedAt(page.startedAt) as Instant
    for (const value of page.records) {
      const read = readRecord(value, { ...place, observedAt, invalidUtf8: page.invalidUtf8 })
      if (read.kind !== 'record' || !wanted.has(read.envelope.id)) continue
      const before = found.get(read.envelope.id)
      if (before === undefined || supersedes(read.envelope, before))
        found.set(read.envelope.id, read.envelope)
    }
  }
  return [...found.values()]
}

/** For `settleConflicts`, in place of a fetch by id. */
export async function refetchFromList(source: Source, ids: readonly string[]): Promise<FetchedStates> {
  return { envelopes: await relist(source, ids, 'refetch'), deadLetters: [] }
}

/** Tolerance between the lower bounds of two runs; see deletes.ts. */
const BOUND_MICROS = 1_000_000

/**
 * Exports cannot be fetched by id, so two complete lists in a row must miss one before it counts as deleted (law 6).
 *
 * Invariant: a tombstone is written only for an export that a stable list missed now and that the stable list of an
 * earlier run missed too, with no list between them that contained it; and for none when more are missing than the guard
 * allows.
 */
export async function deleteMissedTwice(
  source: Source,
  session: Session,
  scan: ScanReport,
  { allowMassDelete, dry }: SliceOptions,
): Promise<SliceNote> {
  const { stream, taken } = source
  const place = { teamId: taken.teamId, stream: stream.name, table: stream.table }
  const before = instantOf(microsOf(scan.startedAt) + BOUND_MICROS)
  const { ids: missing } = await scan.seenIds.missing(place, before, Number.MAX_SAFE_INTEGER)
  const allowed = Math.max(GUARD_ROWS, Math.floor((await countLive(session, place)) * GUARD_SHARE))
  const isWithheld = missing.length > allowed && !allowMassDelete
  const again = new Set(isWithheld ? [] : await missedBefore(source, session, missing))
  const batcher = openBatcher(source, 'merge')
  const gone = (id: string, observedAt: Instant) =>
    tombstone(id, { ...place, origin: `run:${taken.runId} proof`, observedAt })
  await batcher.add(
    [...again].map((id) => gone(id, scan.startedAt)),
    [],
  )
  const conflicting = new Set(await batcher.finish())
  await settleConflicts(source, session, conflicting, async ({ serviceClock, clock }, ids) => {
    const now = serviceClock.observedAt(clock.now()) as Instant
    return { envelopes: ids.map((id) => gone(id, now)), deadLetters: [] }
  })
  if (!dry) {
    const once = missing.filter((id) => !again.has(id))
    await noteMissed(source, session, once)
  }
  return isWithheld ? massDeleteNote(stream.name, missing.length, allowed) : NO_NOTE
}

/** Returns the missing exports that the stable list of an earlier run missed too. */
export async function missedBefore(
  { taken }: Source,
  { db }: Session,
  missing: readonly string[],
): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from intake_ops.missed_once
    where team_id = ${taken.teamId} and stream = ${taken.stream} and run_id <> ${taken.runId}
      and id = any(${missing}::text[])`.execute(db)
  return rows.map(({ id }) => id)
}

/** Leaves exactly `once` noted; an export that was noted before keeps the run that missed it first. */
async function noteMissed({ taken }: Source, { db }: Session, once: readonly string[]): Promise<void> {
  const { teamId, stream, runId } = taken
  await db.transaction().execute(async (transaction) => {
    await sql`
      delete from intake_ops.missed_once
      where team_id = ${teamId} and stream = ${stream} and id <> all(${once}::text[])`.execute(transaction)
    await sql`
      insert into intake_ops.missed_once (team_id, stream, id, run_id)
      select ${teamId}, ${stream}, id, ${runId} from unnest(${once}::text[]) as missed (id)
      on conflict do nothing`.execute(transaction)
    await assertOwned(transaction, taken)
  })
}
