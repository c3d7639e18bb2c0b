/**
 * Fetches records by id, and decides what an answer means for the record, or the file, that was requested.
 *
 *     200 with this record ─► record                404, 410 ─► gone
 *     200 with anything else, 400 ─► dead letter    5xx, no whole answer ─► later
 *     401, 403, 405, a redirect, a wrong path, 429 beyond the longest wait ─► thrown: the stream stops
 *
 * Invariant: only 404 and 410 prove that a record is gone. A failure that does not concern the record (the service fails,
 * is unreachable, or is configured otherwise) is neither a dead letter nor a delete. A thrown error aborts the parallel
 * fetches.
 */
import { setMaxListeners } from 'node:events'
import type { Answer, Client, Meter } from '../../api/client.ts'
import { ApiError, ShapeError } from '../../api/errors.ts'
import type { ServiceClock } from '../../api/service-clock.ts'
import type { Envelope } from '../../core/envelope.ts'
import { IntakeError } from '../../core/errors.ts'
import type { Instant } from '../../core/time.ts'
import { type DeadLetter, type Reading, type ReadRecord, readRecord } from '../../normalize/read-record.ts'
import { isIdAlone, type Stream } from '../../streams/stream.ts'
import type { FailedFetches, FailedInRow, Source } from '../source.ts'

export function noFailedFetches(): FailedFetches {
  return { inRow: 0, later: new Map() }
}

export interface FetchContext {
  readonly client: Client
  readonly serviceClock: ServiceClock
  readonly meter: Meter
  readonly signal?: AbortSignal
  readonly teamId: number
  /** Has a path for one record. */
  readonly stream: Stream
  /** Without a run nobody reads the ids that are fetched later, and none are kept. */
  readonly failedFetches: FailedInRow | FailedFetches
}

export interface FetchRequest {
  readonly id: string
  /** Origin of the fetched record: why it was fetched. */
  readonly origin: string
}

export type FetchResult =
  | ReadRecord
  | { readonly kind: 'gone'; readonly observedAt: Instant }
  | { readonly kind: 'later'; readonly error: IntakeError }

/** Fetches records for a run; `purpose` becomes part of their origin. */
export async function fetchForRun(
  source: Source,
  ids: readonly string[],
  purpose: 'fetch' | 'proof' | 'refetch',
): Promise<readonly FetchResult[]> {
  const { client, serviceClock, meter, signal, stream, taken, failedFetches } = source
  const by = { client, serviceClock, meter, signal, stream, failedFetches, teamId: taken.teamId }
  const origin = `run:${taken.runId} ${purpose}`
  return await fetchEach(
    by,
    ids.map((id) => ({ id, origin })),
  )
}

/**
 * Fetches records in parallel; the answers are in the order of `wanted`. Notes ids to fetch later, for a run; throws errors
 * that stop the stream.
 */
export async function fetchEach(
  by: FetchContext,
  wanted: readonly FetchRequest[],
): Promise<readonly FetchResult[]> {
  const stop = new AbortController()
  const signal = by.signal === undefined ? stop.signal : AbortSignal.any([by.signal, stop.signal])
  setMaxListeners(0, signal)
  const found = wanted.map((record) =>
    fetchOne(by, record, signal).catch((error: unknown) => {
      stop.abort(error)
      throw error
    }),
  )
  await Promise.allSettled(found)
  const answers = await Promise.all(found)
  if (!('later' in by.failedFetches)) return answers
  const { later } = by.failedFetches
  for (const [index, each] of answers.entries()) {
    if (each.kind === 'later') later.set(wanted[index]!.id, each.error.message)
    else later.delete(wanted[index]!.id)
  }
  return answers
}

async function fetchOne(
  by: FetchContext,
  { id, origin }: FetchRequest,
  signal: AbortSignal,
): Promise<FetchResult> {
  const { client, serviceClock, meter, stream, failedFetches } = by
  const template = client.pathOf(stream.one!)
  let refusal: Answer | undefined
  const onRefusal = (answer: Answer) => {
    refusal = answer
  }
  try {
    const answer = await client.get(template, { params: { id }, meter, signal, onRefusal })
    serviceClock.sample(answer)
    const read = readFetched(answer, id, {
      teamId: by.teamId,
      stream,
      origin,
      observedAt: serviceClock.observedAt(answer.startedAt) as Instant,
      invalidUtf8: answer.invalidUtf8,
    })
    if (read.kind === 'record') failedFetches.inRow = 0
    else if (failedFetches.inRow >= MAX_IN_ROW.dead) throw noRecords(template)
    else failedFetches.inRow += 1
    return read
  } catch (error) {
    const meaning = meaningOf(error, failedFetches)
    if (meaning === 'later') return { kind: 'later', error: error as IntakeError }
    if (meaning === 'gone' && refusal !== undefined) {
      serviceClock.sample(refusal)
      return { kind: 'gone', observedAt: serviceClock.observedAt(refusal.startedAt) as Instant }
    }
    return { kind: 'dead', deadLetter: deadLetterOf(error, { id, origin }) }
  }
}

/** Reads the record of an answer; a dead letter if it is not the requested one. */
function readFetched({ body }: Answer, id: string, reading: Reading): ReadRecord {
  const read = readRecord(body, reading)
  if (read.kind === 'dead')
    return { ...read, deadLetter: { ...read.deadLetter, recordId: read.deadLetter.recordId ?? id } }
  const { payload, text } = read.envelope.content!
  const refused = (reason: string): ReadRecord => {
    return { kind: 'dead', deadLetter: { recordId: id, origin: reading.origin, reason, body: text } }
  }
  if (isIdAlone(payload)) return refused('the record fetched by id has nothing but its id')
  if (read.envelope.id === id) return read
  return refused('the record fetched by id has another id')
}

/**
 * Failed answers in a row that are blamed on the record; after these the service or the path is at fault. Few where the
 * service fails or returns no JSON, more where it answers that a request is wrong.
 */
const MAX_IN_ROW = { later: 10, unreadable: 10, dead: 100 } as const

/** Codes of a complete answer that cannot be read, after further attempts where these might help. */
const UNREADABLE = new Set(['not_json', 'bad_encoding', 'too_deep', 'too_large'])

/**
 * Returns what a failure means for the record or file that was requested by id, and counts it. Throws a failure that does
 * not concern it: the stream stops. A file is never gone: only the list shows that.
 */
export function meaningOf(
  error: unknown,
  failedFetches: FailedInRow,
  what: 'record' | 'file' = 'record',
): 'gone' | 'dead' | 'later' {
  const found = kindOf(error)
  const kind = found === 'gone' && what === 'file' ? 'dead' : found
  if (kind === 'stop') throw error
  if (kind === 'gone') {
    failedFetches.inRow = 0
    return 'gone'
  }
  if (failedFetches.inRow >= MAX_IN_ROW[kind]) throw error
  failedFetches.inRow += 1
  return kind === 'unreadable' ? 'dead' : kind
}

function kindOf(error: unknown): 'gone' | 'dead' | 'unreadable' | 'later' | 'stop' {
  if (!(error instanceof IntakeError)) return 'stop'
  const { code, verdict } = error
  if (UNREADABLE.has(code)) return 'unreadable'
  if (verdict === 'gone') return 'gone'
  if (verdict === 'dead_letter') return 'dead'
  // The service is unreachable, or permits no request of the team: every other request would fail too.
  return verdict === 'retry' && code !== 'unreachable' && code !== 'throttled' ? 'later' : 'stop'
}

function deadLetterOf(error: unknown, { id, origin }: FetchRequest): DeadLetter {
  const status = error instanceof ApiError && error.status !== undefined ? ` (${error.status})` : ''
  const isUnreadable = error instanceof IntakeError && UNREADABLE.has(error.code)
  const reason = isUnreadable
    ? 'the record fetched by id cannot be read'
    : `the service does not give the record by its id${status}`
  return { recordId: id, origin, reason, body: 'null' }
}

function noRecords(template: string): ShapeError {
  return new ShapeError(
    template,
    'the answers contain no record, or other records than those requested',
    'record_unreadable',
    'Check `paths` in the configuration.',
  )
}

/**
 * Returns the records that list entries summarize, by id; null for a record that is to be fetched later. One that is not
 * found becomes a dead letter and leaves the stored state.
 */
export async function fetchWhole(
  source: Source,
  summaries: readonly Envelope[],
): Promise<ReadonlyMap<string, ReadRecord | null>> {
  const byId = new Map(summaries.map((summary) => [summary.id, summary]))
  const ids = [...byId.keys()]
  const found = await fetchForRun(source, ids, 'fetch')
  return new Map(
    ids.map((id, index): [string, ReadRecord | null] => {
      const result = found[index]!
      const { content, origin } = byId.get(id)!
      const body = content?.text ?? 'null'
      if (result.kind === 'record') return [id, result]
      if (result.kind === 'later') return [id, null]
      if (result.kind === 'dead') return [id, { kind: 'dead', deadLetter: { ...result.deadLetter, body } }]
      const reason = 'is in the list, but not found by its id'
      return [id, { kind: 'dead', deadLetter: { recordId: id, origin, reason, body } }]
    }),
  )
}
