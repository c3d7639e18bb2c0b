/**
 * One round of a team: takes due records, fetches all of them in parallel under the team's request budget, and settles
 * the answers stream by stream.
 *
 * Invariant: a round that ends early leaves its rows due again; a stream that stops does not stop the others, and neither
 * does a record that our own code fails on.
 */
import { sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import type { StreamName } from '../../core/envelope.ts'
import { type IntakeError, verdictOf } from '../../core/errors.ts'
import type { Instant } from '../../core/time.ts'
import { whyNotLoaded } from '../../load/merge/load.ts'
import type { Loaders } from '../../load/merge/loaders.ts'
import { streamNamed } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { defectIn, openDefectReports, type ReportDefect } from '../../warehouse/defects.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { FailedInRow, Source } from '../source.ts'
import { type DueRow, originOf, pauseBefore, postpone, RENEW_MS, renewLease, takeDue } from './due-rows.ts'
import { type FetchContext, type FetchResult, fetchEach } from './fetch-by-id.ts'
import { settleAnswers } from './settle-answers.ts'

/** The client of a team; `failedFetches` persists from round to round. */
export interface RoundClient extends Pick<FetchContext, 'client' | 'serviceClock' | 'meter' | 'signal'> {
  readonly failedFetches: Map<StreamName, FailedInRow>
}

export interface RoundReport {
  readonly records: number
  readonly gone: number
  /** Why the service answered no request at all; null when it answered one, or none was made. */
  readonly failure: string | null
  /** Streams whose records cannot be fetched before a person acts. */
  readonly stopped: ReadonlyMap<StreamName, IntakeError>
}

/** Records fetched in parallel; the answers stay in memory until all have arrived. */
const MAX_FETCHES = 50

interface Place {
  readonly teamId: number
  readonly loaders: Loaders
  readonly clock: Clock
  /** Opened for each round, or for all rounds of a run. */
  readonly reportDefect: ReportDefect
}

export async function refetchRound(
  place: Place,
  roundClient: RoundClient,
  streams: readonly StreamName[],
): Promise<RoundReport> {
  const { teamId, loaders, clock, reportDefect } = place
  const rows = await loaders.run(({ db }) => takeDue(db, teamId, streams, MAX_FETCHES))
  const open = new Set(rows)
  const parts = [...new Set(rows.map((row) => row.stream))].map((name) => ({
    stream: streamNamed(name)!,
    rows: rows.filter((row) => row.stream === name),
  }))
  const stopped = new Map<StreamName, IntakeError>()
  const failures: string[] = []
  let failed = 0
  let gone = 0
  const over = new AbortController()
  const renewing = renewUntil(over.signal, { loaders, clock }, open)
  try {
    const fetched = await Promise.allSettled(parts.map((part) => fetchPart(place, roundClient, part)))
    roundClient.signal?.throwIfAborted()
    for (const [index, result] of fetched.entries()) {
      const { stream, rows: ofStream } = parts[index]!
      if (result.status === 'fulfilled') {
        const present = roundClient.serviceClock.observedAt(clock.now()) as Instant
        const answers = ofStream.map((row, nth) => ({ row, answer: result.value[nth]! }))
        await loaders.run((session) => settleAnswers(session, stream, answers, present, reportDefect))
        gone += result.value.filter(({ kind }) => kind === 'gone').length
        const unanswered = result.value.flatMap((answer) =>
          answer.kind === 'later' ? answer.error.message : [],
        )
        failures.push(...unanswered)
        failed += unanswered.length
      } else {
        const error = warehouseError(result.reason)
        // After a temporary failure the records are requested again with growing pauses, as if each had been
        // requested.
        const isTemporary = verdictOf(error) === 'retry'
        await loaders.run(({ db }) =>
          isTemporary
            ? postpone(db, ofStream, pauseBefore, 'failure')
            : postpone(db, ofStream, () => 0, 'nothing'),
        )
        if (isTemporary) failures.push(error.message)
        else stopped.set(stream.name, error)
        failed += ofStream.length
      }
      for (const row of ofStream) open.delete(row)
    }
    const failure = failed === rows.length ? (failures[0] ?? null) : null
    return { records: rows.length, gone, failure, stopped }
  } catch (error) {
    await release(loaders, [...open])
    throw error
  } finally {
    over.abort()
    await renewing
  }
}

/**
 * Renews the lease of rows that are still `open`. Without the warehouse the lease ends, and another process may fetch them.
 */
async function renewUntil(
  over: AbortSignal,
  { loaders, clock }: Pick<Place, 'loaders' | 'clock'>,
  open: ReadonlySet<DueRow>,
): Promise<void> {
  while (open.size > 0 && !over.aborted) {
    await clock.sleep(RENEW_MS, over).catch(() => {})
    if (!over.aborted) await loaders.run(({ db }) => renewLease(db, [...open])).catch(() => {})
  }
}

interface RoundPart {
  readonly stream: Stream
  readonly rows: readonly DueRow[]
}

/**
 * The answers, in the order of the rows. If our own code fails to read one, half of them are requested again at a time until
 * that record is alone: it becomes a dead letter.
 */
async function fetchPart(
  place: Place,
  roundClient: RoundClient,
  { stream, rows }: RoundPart,
): Promise<readonly FetchResult[]> {
  const { teamId, loaders, reportDefect } = place
  const failedFetches = roundClient.failedFetches.get(stream.name) ?? { inRow: 0 }
  roundClient.failedFetches.set(stream.name, failedFetches)
  try {
    return await fetchEach(
      { ...roundClient, teamId, stream, failedFetches },
      rows.map((row) => ({ id: row.id, origin: originOf(row) })),
    )
  } catch (error) {
    if (roundClient.signal?.aborted === true || defectIn(error) === null) throw error
    const met = { teamIds: [teamId], consequence: 'records are fetched one by one' }
    await loaders.run((session) => reportDefect(session, error, met))
    if (rows.length > 1) {
      const middle = rows.length >> 1
      const halves = [rows.slice(0, middle), rows.slice(middle)]
      const answers: FetchResult[] = []
      for (const half of halves)
        answers.push(...(await fetchPart(place, roundClient, { stream, rows: half })))
      return answers
    }
    const [row] = rows
    const reason = whyNotLoaded(error, 'record')!
    return [{ kind: 'dead', deadLetter: { recordId: row!.id, origin: originOf(row!), reason, body: 'null' } }]
  }
}

/** Makes rows due at once; without the warehouse their lease ends by itself. */
async function release(loaders: Loaders, rows: readonly DueRow[]): Promise<void> {
  await loaders.run(({ db }) => postpone(db, rows, () => 0, 'nothing')).catch(() => {})
}

/**
 * Fetches, within a run, the records that earlier runs, events and retried dead letters requested. A running `serve` has
 * usually fetched them already; without one, only a run does. Throws errors that stop the stream.
 *
 * Invariant: it ends even while new requests arrive.
 */
export async function fetchDue(source: Source): Promise<void> {
  const { client, serviceClock, meter, signal, stream, failedFetches, taken, loaders, clock, logger } = source
  const { teamId } = taken
  const roundClient = {
    client,
    serviceClock,
    meter,
    signal,
    failedFetches: new Map([[stream.name, failedFetches]]),
  }
  const { rows } = await loaders.run(({ db }) =>
    sql<{ due: number }>`
      select count(*)::int as due from intake_ops.refetches
      where team_id = ${teamId} and stream = ${stream.name} and due_at <= now()`.execute(db),
  )
  const place = { teamId, loaders, clock, reportDefect: openDefectReports({ logger }) }
  for (let left = rows[0]!.due; left > 0; ) {
    const { records, failure, stopped } = await refetchRound(place, roundClient, [stream.name])
    for (const error of stopped.values()) throw error
    if (records === 0 || failure !== null) return
    left -= records
  }
}
