/**
 * Mends what a verification found, and nothing else.
 *
 *     missing, different ─► fetched ─► loaded above what is held
 *     extra ─► guard ─► fetched: 404 ─► tombstone
 *
 * Invariant: a record is written with a version above the one that was held when the service was asked, so that its rows
 * are laid down anew though its payload be the same, and what came meanwhile stays; a tombstone is written only on the
 * terms of law 6. What is said to be repaired was compared again and agrees.
 */
import { above, type Envelope } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { fetchForRun } from '../../extract/conflicts/fetch-by-id.ts'
import { GUARD_ROWS, GUARD_SHARE } from '../../extract/scan/deletes.ts'
import { countLive } from '../../extract/scan/seen-ids.ts'
import { massDeleteNote } from '../../extract/slice-note.ts'
import { storedVersions } from '../../load/merge/stored-versions.ts'
import type { DeadLetter } from '../../normalize/dead-letter.ts'
import { linesOf } from '../../normalize/lines.ts'
import { tombstone } from '../../normalize/read-record.ts'
import { recordsOf } from '../expected/from-raw.ts'
import { rewritePart } from '../replay/rewrite.ts'
import { expectForgotten } from './expect-forgotten.ts'
import type { Difference } from './find.ts'
import { compareIds, expectEnvelopes, type Looking, presentOf } from './look-again.ts'
import { type Again, relisted } from './relist.ts'
import { repairFiles } from './repair-files.ts'

export interface Repaired {
  readonly repaired: number
  /** What was left as it is, and why. */
  readonly note: string | null
}

export interface Mending {
  readonly allowMassDelete: boolean
  /** The list was read to its end and did not change: what it missed may be gone. */
  readonly stable: boolean
}

const AT_A_TIME = 200

export async function repair(
  looking: Looking,
  found: readonly Difference[],
  { allowMassDelete, stable }: Mending,
): Promise<Repaired> {
  const { source, session, tables } = looking
  const { stream, taken } = source
  const startedAt = source.serviceClock.observedAt(source.clock.now()) as Instant
  const begun = { startedAt, from: await presentOf(session) }
  // What was never a record cannot be deleted: it is neither guarded nor waited for.
  const isStray = ({ isOrphan }: Difference) => stream.one === null && isOrphan
  const extra = found.filter((each) => each.kind === 'extra' && !isStray(each))
  const place = { teamId: taken.teamId, stream: stream.name }
  const allowed = Math.max(GUARD_ROWS, Math.floor((await countLive(session, place)) * GUARD_SHARE))
  const isHeld = extra.length > allowed && !allowMassDelete
  const mayDelete = stable && !isHeld
  const wanted = found.filter((each) => each.kind !== 'extra' || mayDelete || isStray(each))
  const ids = wanted.map(({ id }) => id)
  for (let from = 0; from < ids.length; from += AT_A_TIME) {
    source.signal.throwIfAborted()
    const portion = wanted.slice(from, from + AT_A_TIME)
    if (stream.list === null) await deriveAgain(looking, portion)
    else await loadAgain(looking, portion)
  }
  if (tables.files.length > 0) await repairFiles(looking, wanted)
  const left = new Set((await compareIds(looking, ids, begun)).map(({ id }) => id))
  const notes = [
    ...(isHeld ? [massDeleteNote(stream.name, extra.length, allowed).text] : []),
    ...(extra.length > 0 && !stable && stream.list !== null
      ? ['what the source does not have was left: its list kept changing while it was read']
      : []),
  ]
  const waiting = stream.one === null && stream.entryAt === undefined && extra.some(({ id }) => left.has(id))
  if (waiting)
    notes.push('what this list does not have is deleted when a complete list of another run misses it too')
  return {
    repaired: wanted.filter(({ id }) => !left.has(id)).length,
    note: notes.length === 0 ? null : notes.join('; '),
  }
}

/** The rows of these records laid down again from the records behind them. */
async function deriveAgain(
  { source, session, tables }: Looking,
  found: readonly Difference[],
): Promise<void> {
  const { teamId } = source.taken
  const ids = found.map(({ id }) => id)
  const envelopes = await recordsOf(session, { teamId, stream: source.stream.name }, ids)
  await source.loaders.run((loader) =>
    rewritePart(loader, { teamId, tables, envelopes, scope: { kind: 'ids', ids } }),
  )
}

/** These records as the service has them now, in the warehouse and in what is expected of it. */
async function loadAgain(looking: Looking, found: readonly Difference[]): Promise<void> {
  const { source, session, tables } = looking
  const { stream, taken, loaders, load } = source
  const ids = found.map(({ id }) => id)
  // Before the service is asked: what an event brings meanwhile may be newer than the answer, and stands.
  const held = await storedVersions(session.db, { teamId: taken.teamId, stream: stream.name }, ids)
  const { envelopes, gone, letters, unknown } =
    stream.one === null ? await relisted(source, session, found) : await fetched(source, found)
  const states = [...envelopes, ...gone].map((envelope) => above(envelope, held.get(envelope.id)))
  await loaders.run((loader) =>
    load(loader, { stream, taken, lines: linesOf(stream, states), deadLetters: letters }, 'merge'),
  )
  const known = ids.filter((id) => !unknown.includes(id))
  await expectEnvelopes(session, tables, known, envelopes)
  const isLog = stream.entryAt !== undefined
  if (isLog) await expectForgotten(session, tables, taken.teamId, ids)
  // Rows that no record is behind, of a stream in which nothing can be proved gone; entries that a log has forgotten.
  const nobody = found.filter(
    ({ id, kind, certain }) =>
      (kind === 'extra' || isLog) && certain && !states.some((each) => each.id === id),
  )
  if (nobody.length > 0) await deriveAgain(looking, nobody)
}

async function fetched(source: Looking['source'], found: readonly Difference[]): Promise<Again> {
  const { stream, taken } = source
  const origin = `run:${taken.runId} repair`
  const envelopes: Envelope[] = []
  const gone: Envelope[] = []
  const letters: DeadLetter[] = []
  const unknown: string[] = []
  const answers = await fetchForRun(
    source,
    found.map(({ id }) => id),
    'refetch',
  )
  for (const [at, { id, kind }] of found.entries()) {
    const came = answers[at]!
    if (came.kind === 'record') envelopes.push({ ...came.envelope, origin })
    else if (came.kind === 'later') unknown.push(id)
    else if (came.kind === 'dead') {
      unknown.push(id)
      letters.push({ ...came.deadLetter, origin })
    }
    // What the list held a moment ago is for the next list to miss.
    else if (kind === 'extra') {
      const { observedAt } = came
      gone.push(tombstone(id, { teamId: taken.teamId, stream: stream.name, origin, observedAt }))
    }
  }
  return { envelopes, gone, letters, unknown }
}
