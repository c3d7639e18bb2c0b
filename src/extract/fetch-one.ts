/**
 * One record by id.
 *
 * Invariant: only an answer of 404 says that a record is gone. One that the service will not give is set aside, so
 * that it does not stop the others; a service that is not there, or that gives none, ends the stream.
 */
import type { Answer } from '../api/client.ts'
import { ApiError } from '../api/errors.ts'
import { verdictOf } from '../core/errors.ts'
import type { Instant } from '../core/time.ts'
import { type Reading, type ReadRecord, readRecord } from '../load/read-record.ts'
import type { Source } from './source.ts'

export type Fetched = ReadRecord | { readonly kind: 'gone'; readonly observedAt: Instant }

/** Fetches the record `id` of a stream that has a path for it; `purpose` says why, in the record's origin: `fetch`, `proof` or `refetch`. */
export async function fetchOne(
  source: Source,
  id: string,
  purpose: 'fetch' | 'proof' | 'refetch',
): Promise<Fetched> {
  const { client, serviceClock, clock, stream, taken, meter, signal } = source
  const askedAt = clock.now()
  try {
    const answer = await client.get(client.paths[stream.one!], { params: { id }, meter, signal })
    serviceClock.sample(answer)
    source.refusals.count = 0
    const reading: Reading = {
      teamId: taken.teamId,
      stream: stream.name,
      origin: `run:${taken.runId} ${purpose}`,
      observedAt: serviceClock.observedAt(answer.startedAt) as Instant,
      invalidUtf8: answer.invalidUtf8,
    }
    return readFetched(answer, id, reading)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      return { kind: 'gone', observedAt: serviceClock.observedAt(askedAt) as Instant }
    }
    if (!isOfThisRecord(error) || isTooOften(source, error)) throw error
    source.refusals.count += 1
    const status = error instanceof ApiError && error.status !== undefined ? ` (${error.status})` : ''
    const reason = `the service does not give the record by its id${status}`
    return {
      kind: 'dead',
      letter: { recordId: id, origin: `run:${taken.runId} ${purpose}`, reason, body: 'null' },
    }
  }
}

/** The record of an answer, if it is the one that was asked for. */
export function readFetched({ body }: Answer, id: string, reading: Reading): ReadRecord {
  const read = readRecord(body, reading)
  if (read.kind === 'dead')
    return { ...read, letter: { ...read.letter, recordId: read.letter.recordId ?? id } }
  if (read.kind !== 'record' || read.envelope.id === id) return read
  const reason = 'the record fetched by id has another id'
  const text = read.envelope.content?.text ?? ''
  return { kind: 'dead', letter: { recordId: id, origin: reading.origin, reason, body: text } }
}

/**
 * Records in a row that the service may not give before it is the service that is at fault, and not they: few where it
 * fails, more where it answers that a request is wrong.
 */
const MOST_FAILURES = 10
const MOST_REFUSALS = 100

/** True when so many in a row were refused that the stream ends. */
export function isTooOften({ refusals }: Source, error: unknown): boolean {
  const isRefused = error instanceof ApiError && error.status !== undefined && error.status < 500
  return refusals.count >= (isRefused ? MOST_REFUSALS : MOST_FAILURES)
}

/** The service answered, and not about its limit: another record may fare better. */
export function isOfThisRecord(error: unknown): boolean {
  if (verdictOf(error) === 'set_aside') return true
  return error instanceof ApiError && error.status !== undefined && error.status !== 429
}
