/**
 * Repairs the differences of a verification, and nothing else.
 *
 *     missing, different ─► fetched ─► loaded above the stored version
 *     extra ─► guard ─► fetched: 404 ─► tombstone
 *
 * Invariant: a record is written with a version above the one that was stored before the request, so that its rows are
 * rewritten even if the payload is unchanged, and states that arrived since stay; a tombstone requires the proof of law
 * 6. A record counts as repaired only if a new comparison finds it equal.
 */
import { sql } from 'kysely'
import { type Envelope, withVersionAbove } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { fetchForRun } from '../../extract/conflicts/fetch-by-id.ts'
import { readFile } from '../../extract/reading/read-export-file.ts'
import { missedBefore, relist } from '../../extract/reading/read-exports.ts'
import { GUARD_ROWS, GUARD_SHARE } from '../../extract/scan/deletes.ts'
import { countLive } from '../../extract/scan/seen-ids.ts'
import { massDeleteNote } from '../../extract/slice-note.ts'
import type { Source } from '../../extract/source.ts'
import { storedExports } from '../../load/exports/export-file.ts'
import { joinProblems, matchQuestions } from '../../load/exports/file-problems.ts'
import { storedVersions } from '../../load/merge/skip-unchanged.ts'
import { assertOwned } from '../../load/slice.ts'
import { linesOf } from '../../normalize/lines.ts'
import { type DeadLetter, tombstone } from '../../normalize/read-record.ts'
import type { Session } from '../../warehouse/connect.ts'
import { recordsOf } from '../expected-from-raw.ts'
import { rewritePart } from '../rewrite.ts'
import { compareIds, expectEnvelopes, presentOf, type StreamComparison } from './confirm.ts'
import { expectForgotten } from './expect-raw.ts'
import type { Difference } from './find.ts'

export interface Repaired {
  readonly repaired: number
  /** Differences that were left, and the reason. */
  readonly note: string | null
}

export interface RepairConditions {
  readonly allowMassDelete: boolean
  /** The list was complete and stable: records that it missed may be gone. */
  readonly stable: boolean
}

const IDS_PER_STATEMENT = 200

export async function repair(
  comparing: StreamComparison,
  found: readonly Difference[],
  { allowMassDelete, stable }: RepairConditions,
): Promise<Repaired> {
  const { source, session, tables } = comparing
  const { stream, taken } = source
  const startedAt = source.serviceClock.observedAt(source.clock.now()) as Instant
  const begun = { startedAt, from: await presentOf(session) }
  // Rows without a record cannot be deleted by a tombstone: neither the guard nor a second list applies.
  const isStray = ({ isOrphan }: Difference) => stream.one === null && isOrphan
  const extra = found.filter((difference) => difference.kind === 'extra' && !isStray(difference))
  const place = { teamId: taken.teamId, stream: stream.name }
  const allowed = Math.max(GUARD_ROWS, Math.floor((await countLive(session, place)) * GUARD_SHARE))
  const isGuarded = extra.length > allowed && !allowMassDelete
  const mayDelete = stable && !isGuarded
  const wanted = found.filter((difference) => difference.kind !== 'extra' || mayDelete || isStray(difference))
  const ids = wanted.map(({ id }) => id)
  for (let from = 0; from < ids.length; from += IDS_PER_STATEMENT) {
    source.signal.throwIfAborted()
    const portion = wanted.slice(from, from + IDS_PER_STATEMENT)
    if (stream.list === null) await deriveAgain(comparing, portion)
    else await loadAgain(comparing, portion)
  }
  if (tables.files.length > 0) await repairFiles(comparing, wanted)
  const left = new Set((await compareIds(comparing, ids, begun)).map(({ id }) => id))
  const notes = [
    ...(isGuarded ? [massDeleteNote(stream.name, extra.length, allowed).text] : []),
    ...(extra.length > 0 && !stable && stream.list !== null
      ? ['records that the service does not list were kept: its list kept changing while it was read']
      : []),
  ]
  const waiting = stream.one === null && stream.entryAt === undefined && extra.some(({ id }) => left.has(id))
  if (waiting)
    notes.push(
      'entries that this list misses are deleted when a complete list of another run misses them too',
    )
  return {
    repaired: wanted.filter(({ id }) => !left.has(id)).length,
    note: notes.length === 0 ? null : notes.join('; '),
  }
}

/** Rewrites the rows of these records from their stored records. */
async function deriveAgain(
  { source, session, tables }: StreamComparison,
  found: readonly Difference[],
): Promise<void> {
  const { teamId } = source.taken
  const ids = found.map(({ id }) => id)
  const envelopes = await recordsOf(session, { teamId, stream: source.stream.name }, ids)
  await source.loaders.run((loader) =>
    rewritePart(loader, { teamId, tables, envelopes, scope: { kind: 'ids', ids }, taken: source.taken }),
  )
}

/** Loads the current state of these records into the warehouse and the expected tables. */
async function loadAgain(comparing: StreamComparison, found: readonly Difference[]): Promise<void> {
  const { source, session, tables } = comparing
  const { stream, taken, loaders, load } = source
  const ids = found.map(({ id }) => id)
  // Before the request: a state that an event loads meanwhile may be newer than the answer, and stays.
  const stored = await storedVersions(session.db, { teamId: taken.teamId, stream: stream.name }, ids)
  const { envelopes, gone, deadLetters, unknown } =
    stream.one === null ? await relisted(source, session, found) : await fetched(source, found)
  const states = [...envelopes, ...gone].map((envelope) =>
    withVersionAbove(envelope, stored.get(envelope.id)),
  )
  await loaders.run((loader) =>
    load(loader, { stream, taken, lines: linesOf(stream, states), deadLetters }, 'merge'),
  )
  const known = ids.filter((id) => !unknown.includes(id))
  await expectEnvelopes(session, tables, known, envelopes)
  const isLog = stream.entryAt !== undefined
  if (isLog) await expectForgotten(session, tables, taken.teamId, ids)
  // Rows without a record, in a stream where nothing can be proved gone; log entries that are no longer listed.
  const nobody = found.filter(
    ({ id, kind, certain }) =>
      (kind === 'extra' || isLog) && certain && !states.some((state) => state.id === id),
  )
  if (nobody.length > 0) await deriveAgain(comparing, nobody)
}

async function fetched(source: StreamComparison['source'], found: readonly Difference[]): Promise<ReadAgain> {
  const { stream, taken } = source
  const origin = `run:${taken.runId} repair`
  const envelopes: Envelope[] = []
  const gone: Envelope[] = []
  const deadLetters: DeadLetter[] = []
  const unknown: string[] = []
  const answers = await fetchForRun(
    source,
    found.map(({ id }) => id),
    'refetch',
  )
  for (const [index, { id, kind }] of found.entries()) {
    const answer = answers[index]!
    if (answer.kind === 'record') envelopes.push({ ...answer.envelope, origin })
    else if (answer.kind === 'later') unknown.push(id)
    else if (answer.kind === 'dead') {
      unknown.push(id)
      deadLetters.push({ ...answer.deadLetter, origin })
    }
    // A record that was listed a moment ago is left to the next scan.
    else if (kind === 'extra') {
      const { observedAt } = answer
      gone.push(tombstone(id, { teamId: taken.teamId, stream: stream.name, origin, observedAt }))
    }
  }
  return { envelopes, gone, deadLetters, unknown }
}

/** Records read again. */
interface ReadAgain {
  readonly envelopes: readonly Envelope[]
  readonly gone: readonly Envelope[]
  readonly deadLetters: readonly DeadLetter[]
  /** Ids without an answer: their expected rows stay. */
  readonly unknown: readonly string[]
}

/**
 * The current state of records that cannot be fetched by id, from their list.
 *
 * Invariant: an export is gone if the list misses it now and a complete list of an earlier run missed it too (law 6); an
 * entry of a log is never gone.
 */
async function relisted(source: Source, session: Session, found: readonly Difference[]): Promise<ReadAgain> {
  const { serviceClock, stream, taken, clock } = source
  const observedAt = serviceClock.observedAt(clock.now()) as Instant
  const envelopes = await relist(
    source,
    found.map(({ id }) => id),
    'repair',
  )
  const listed = new Set(envelopes.map(({ id }) => id))
  const missed = found.flatMap(({ id, kind }) => (kind === 'extra' && !listed.has(id) ? id : []))
  const gone = stream.entryAt === undefined ? await missedBefore(source, session, missed) : []
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} repair` }
  return {
    envelopes,
    gone: gone.map((id) => tombstone(id, { ...place, observedAt })),
    deadLetters: [],
    unknown: [],
  }
}

/**
 * Fetches and loads the files that differ, whole, as a backfill does, and removes rows of files without an export. No row
 * of a live export is removed.
 */
async function repairFiles(comparing: StreamComparison, found: readonly Difference[]): Promise<void> {
  const { source, session } = comparing
  const { teamId } = source.taken
  const stored = await storedExports(
    session.db,
    teamId,
    found.map(({ id }) => id),
  )
  for (const [id, known] of stored) {
    await source.loaders.run((loader) => readFile(source, loader, id, { ...known, hash: null }, false))
  }
  await removeStrays(
    comparing,
    found.filter(({ kind, certain }) => kind === 'extra' && certain).map(({ id }) => id),
  )
  await joinProblems(session.db, teamId)
  await matchQuestions(session.db, teamId)
}

/** Removes the files of those exports that have neither a live row nor a live record. */
async function removeStrays(
  { source, session, tables }: StreamComparison,
  ids: readonly string[],
): Promise<void> {
  const { teamId, stream } = source.taken
  const stray = sql`team_id = ${teamId} and export_id = any(${ids}::text[])
    and not exists (
      select from intake.exports entry
      where entry.team_id = stored.team_id and entry.id = stored.export_id and entry._deleted_at is null)
    and not exists (
      select from intake_raw.records raw
      where raw.team_id = stored.team_id and raw.stream = ${stream} and raw.id = stored.export_id and not raw.deleted)`
  if (ids.length === 0) return
  await session.db.transaction().execute(async (transaction) => {
    await assertOwned(transaction, source.taken)
    // The bytes too, or a replay would create the same rows again.
    for (const name of [...tables.files.map((table) => table.name), 'intake_raw.export_files'])
      await sql`delete from ${sql.table(name)} stored where ${stray}`.execute(transaction)
  })
}
