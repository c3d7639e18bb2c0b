/**
 * Verifies one stream of one team: reads, compares, confirms differences, and repairs them on request.
 *
 * Invariant: without a repair only temporary tables are written. A difference is reported by id and names of columns and
 * tables, never by a value.
 */
import { sql } from 'kysely'
import type { StreamName } from '../../core/envelope.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../../core/time.ts'
import type { BackfillOptions, OpenTeam } from '../../extract/backfill-options.ts'
import { laterNote } from '../../extract/conflicts/settle-conflicts.ts'
import { figuresOf, sourceOf } from '../../extract/run-stream.ts'
import { emptyTally, type Source } from '../../extract/source.ts'
import { whyStopped } from '../../load/cancel-run.ts'
import type { Loaders } from '../../load/merge/loaders.ts'
import { firstStep, type RunProgress } from '../../load/run-progress.ts'
import type { RunStatus } from '../../load/runs.ts'
import { cursorOf, type TakenSlice } from '../../load/slice.ts'
import type { Stream } from '../../streams/stream.ts'
import { openSession, PLANNER, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { describeTables, type ExpectedTables } from '../expected-tables.ts'
import { type ConfirmedDifferences, confirmDifferences, presentOf, type StreamComparison } from './confirm.ts'
import { expectRaw, type SourceRead, UNKNOWN } from './expect-raw.ts'
import { expectSource, UNREAD_FILES } from './expect-source.ts'
import type { Difference } from './find.ts'
import { type Repaired, repair } from './repair.ts'
import { computeSums, type StreamSums } from './sums.ts'

export interface StreamVerified extends Omit<ConfirmedDifferences, 'differences'> {
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly Pick<Difference, 'id' | 'fields'>[]
  readonly sums: StreamSums
  readonly repaired: number
  /** Records that could not be compared or repaired, and the reason. */
  readonly note: string | null
}

export function isEqual({ missing, extra, different }: StreamVerified): boolean {
  return missing.length + extra.length + different.length === 0
}

/** True if every difference was repaired. */
export function isRepaired({ missing, extra, different, repaired }: StreamVerified): boolean {
  return missing.length + extra.length + different.length === repaired
}

export interface RepairOptions {
  readonly allowMassDelete: boolean
}

/** The sessions of a team: one for the expected tables, one for the temporary tables of a scan. */
export interface VerifySessions extends AsyncDisposable {
  readonly session: Session
  readonly scanning: Session
}

/** `worker`: see `ConnectionOptions`. */
export async function openVerifySessions(url: string, worker?: string): Promise<VerifySessions> {
  const common = { url, planner: PLANNER.compare, worker }
  const session = await openSession({ ...common, purpose: 'verify compare' })
  const scanning = await openSession({ ...common, purpose: 'verify scan' })
  const close = async () => void (await Promise.all([session.close(), scanning.close()]))
  return { session, scanning, [Symbol.asyncDispose]: close }
}

/** The result of a stream, or the reason why it could not be compared. */
export type StreamResult =
  | { readonly stream: StreamName; readonly status: RunStatus; readonly verified: StreamVerified }
  | { readonly stream: StreamName; readonly status: 'failed' | 'interrupted'; readonly error: string }

/** Streams of one team are compared one after another, since they share the sessions. */
export interface Comparing {
  readonly options: Pick<BackfillOptions, 'url' | 'clock' | 'logger' | 'signal' | 'onProgress'> & {
    readonly repair: RepairOptions | null
  }
  readonly runId: string
  readonly progress: RunProgress
  readonly loaders: Loaders
  readonly sessions: VerifySessions
  readonly team: OpenTeam
}

interface Taking {
  readonly take: () => TakenSlice | Promise<TakenSlice>
  readonly store: (verified: StreamVerified) => Promise<void>
}

/** Never throws because of the source. */
export async function compareOne(
  run: Comparing,
  stream: Stream,
  { take, store }: Taking,
): Promise<StreamResult> {
  const { options, team } = run
  const counted = { meter: { requests: 0, throttled: 0 }, tally: emptyTally(), step: firstStep() }
  run.progress.watch(team.teamId, stream.name, () => figuresOf({ ...counted, client: team.client }))
  try {
    const source = sourceOf(options, team, { stream, taken: await take(), loaders: run.loaders, ...counted })
    const found = await verifyStream(source, run.sessions, options.repair)
    await store(found)
    // Records that could not be fetched were not compared.
    const isDone = isRepaired(found) && source.failedFetches.later.size === 0
    return { stream: stream.name, status: isDone ? 'succeeded' : 'needs_attention', verified: found }
  } catch (error) {
    return { stream: stream.name, ...failureOf(options, { team: team.name, stream: stream.name }, error) }
  } finally {
    counted.step.phase = 'ended'
  }
}

export function failureOf(
  { logger, signal }: Pick<BackfillOptions, 'logger' | 'signal'>,
  place: { readonly team: string; readonly stream: StreamName },
  error: unknown,
): { readonly status: 'failed' | 'interrupted'; readonly error: string } {
  if (signal.aborted) return { status: 'interrupted', error: whyStopped(signal) }
  const { code, message, hint } = warehouseError(error)
  const note = hint === undefined ? message : `${message} — ${hint}`
  logger.error({ ...place, code }, note)
  return { status: 'failed', error: note }
}

/** Null for a stream that is as it should be. */
export function noteOf(result: StreamResult): string | null {
  if ('error' in result) return result.error
  if (result.status === 'succeeded') return null
  const { missing, extra, different, repaired, note } = result.verified
  const counts = `${missing.length} missing, ${extra.length} extra, ${different.length} different, ${repaired} repaired`
  return note === null ? counts : `${counts}; ${note}`
}

/** `hint` null to compare only. */
export async function verifyStream(
  source: Source,
  { session, scanning }: VerifySessions,
  hint: RepairOptions | null,
): Promise<StreamVerified> {
  const { stream } = source
  const tables = await describeTables(session, stream)
  const from = await presentOf(session)
  const read =
    stream.list === null
      ? await expectRaw(source, session, tables)
      : await expectList(source, session, scanning, tables)
  const comparing: StreamComparison = {
    source,
    session,
    scanning,
    tables,
    loggedUntil: await loggedUntil(source, session),
    requests: source.meter.requests,
  }
  source.step.phase = 'compare'
  const sums = await computeSums({ session, scanning }, { teamId: source.taken.teamId, tables })
  // Equal sums mean equal rows.
  const isEqual = sums.sourceHash === sums.warehouseHash
  const looks: ConfirmedDifferences = isEqual
    ? { differences: [], newer: 0, notDue: 0, payloadsOnly: 0 }
    : await confirmDifferences(comparing, { startedAt: read.startedAt, from })
  const { differences } = looks
  const laterIds = [...source.failedFetches.later.keys()]
  const unsaid = [
    uncomparedNote('record', await countIds(session, UNKNOWN, laterIds)),
    tables.files.length === 0
      ? null
      : uncomparedNote('file', await countIds(session, UNREAD_FILES, laterIds)),
  ]
  const repaired: Repaired =
    hint === null || differences.length === 0
      ? { repaired: 0, note: null }
      : await repair(comparing, differences, { ...hint, stable: read.stable })
  const notes = [...unsaid, read.note, repaired.note, laterNote(source).text].filter((note) => note !== null)
  return {
    missing: differences.filter(({ kind }) => kind === 'missing').map(({ id }) => id),
    extra: differences.filter(({ kind }) => kind === 'extra').map(({ id }) => id),
    different: differences
      .filter(({ kind }) => kind === 'different')
      .map(({ id, fields }) => ({ id, fields })),
    newer: looks.newer,
    notDue: looks.notDue,
    payloadsOnly: looks.payloadsOnly,
    sums: { ...sums, source: sums.source - looks.notDue - read.forgotten },
    repaired: repaired.repaired,
    note: notes.length === 0 ? null : notes.join('; '),
  }
}

async function expectList(
  source: Source,
  session: Session,
  scanning: Session,
  tables: ExpectedTables,
): Promise<SourceRead> {
  const read = await expectSource(source, session, scanning, tables)
  const { startedAt, stable, forgotten, reason } = read
  if (!stable) {
    const note = `the list kept changing while it was read (${reason ?? 'unstable'})`
    return { startedAt, stable, forgotten, note }
  }
  const lost = `${forgotten} that the service no longer lists: compared with the stored payloads`
  return { startedAt, stable, forgotten, note: forgotten === 0 ? null : lost }
}

/** Maximum delay between the time of a log entry and its listing. */
const LISTED_LATE_MICROS = 5_000_000

/** For a log, the time of the last read, less a margin: the next backfill reads later entries. */
async function loggedUntil({ stream, taken }: Source, { db }: Session): Promise<Instant | null> {
  if (stream.entryAt === undefined) return null
  const cursor = await cursorOf(db, { teamId: taken.teamId, stream: stream.name, slice: '' })
  const scannedAt = (cursor as { scanned_at?: unknown } | null)?.scanned_at
  const read = typeof scannedAt === 'string' ? parseInstant(scannedAt) : null
  return read === null ? null : instantOf(microsOf(read) - LISTED_LATE_MICROS)
}

function uncomparedNote(what: 'record' | 'file', count: number): string | null {
  if (count === 0) return null
  return `${count} ${what}(s) could not be compared: the service returns nothing for them that can be loaded`
}

async function countIds({ db }: Session, table: typeof UNKNOWN, except: readonly string[]): Promise<number> {
  const { rows } = await sql<{ ids: string }>`
    select count(distinct id) as ids from ${table} where id <> all (${except}::text[])`.execute(db)
  return Number(rows[0]!.ids)
}
