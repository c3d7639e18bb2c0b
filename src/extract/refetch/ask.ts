/**
 * One record asked for by its id, because an event left its state in doubt.
 *
 * Invariant: only an answer of 404 says that a record is gone; a service that is not there, is busy or is at fault says
 * nothing about the record, which is asked for again. Refused credentials are thrown: they say nothing about any record.
 */
import type { Answer, Client, Meter } from '../../api/client.ts'
import { ApiError } from '../../api/errors.ts'
import type { ServiceClock } from '../../api/service-clock.ts'
import { type IntakeError, verdictOf } from '../../core/errors.ts'
import type { Instant } from '../../core/time.ts'
import type { DeadLetter } from '../../load/dead-letters.ts'
import type { ReadRecord } from '../../load/read-record.ts'
import type { Stream } from '../../streams/stream.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { readFetched } from '../fetch-one.ts'
import type { DueRow } from './due-rows.ts'

/** Where a team's service is asked. */
export interface Asked {
  readonly client: Client
  readonly serviceClock: ServiceClock
  readonly meter: Meter
}

export type Told =
  | ReadRecord
  | { readonly kind: 'gone'; readonly observedAt: Instant }
  | { readonly kind: 'failed'; readonly error: IntakeError }

export async function ask(
  { client, serviceClock, meter }: Asked,
  stream: Stream,
  row: DueRow,
): Promise<Told> {
  let refusal: Answer | undefined
  const onRefusal = (answer: Answer) => {
    refusal = answer
  }
  try {
    const answer = await client.get(client.paths[stream.one!], { params: { id: row.id }, meter, onRefusal })
    serviceClock.sample(answer)
    return readFetched(answer, row.id, {
      teamId: row.teamId,
      stream: stream.name,
      origin: originOf(row),
      observedAt: serviceClock.observedAt(answer.startedAt) as Instant,
      invalidUtf8: answer.invalidUtf8,
    })
  } catch (error) {
    const status = error instanceof ApiError ? error.status : undefined
    if (status === 404 && refusal !== undefined) {
      serviceClock.sample(refusal)
      return { kind: 'gone', observedAt: serviceClock.observedAt(refusal.startedAt) as Instant }
    }
    if (status === 401 || status === 403) throw error
    if (verdictOf(error) === 'set_aside' || (status !== undefined && status < 500 && status !== 429)) {
      const told = status === undefined ? '' : ` (${status})`
      return { kind: 'dead', letter: refused(row, `the service does not give the record by its id${told}`) }
    }
    return { kind: 'failed', error: warehouseError(error) }
  }
}

export function refused(row: DueRow, reason: string): DeadLetter {
  return { recordId: row.id, origin: originOf(row), reason, body: 'null' }
}

/** The event that asked, and that its word was not taken. */
export function originOf({ origin }: DueRow): string {
  return `${origin} refetch`
}
