/** Envelopes as the extractor makes them, for tests of later stages. */
import type { Envelope, StreamName } from '../../src/core/envelope.ts'
import { type Instant, instantOf } from '../../src/core/time.ts'
import { readRecord, tombstone } from '../../src/normalize/read-record.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'

/** The instant `micros` microseconds after noon of a day in 2026. */
export function at(micros: number): Instant {
  return instantOf(Date.UTC(2026, 0, 1, 12) * 1000 + micros)
}

export interface Made {
  readonly teamId: number
  readonly stream: StreamName
  readonly observedAt: Instant
  readonly origin?: string
}

export function recordEnvelope(
  record: unknown,
  { teamId, stream, observedAt, origin = 'test' }: Made,
): Envelope {
  const read = readRecord(record, {
    ...{ teamId, stream: streamNamed(stream)!, origin, observedAt },
    invalidUtf8: false,
  })
  if (read.kind !== 'record') throw new Error(`a dead letter: ${read.deadLetter.reason}`)
  return read.envelope
}

export function tombstoneEnvelope(
  id: string,
  { teamId, stream, observedAt, origin = 'test' }: Made,
): Envelope {
  return tombstone(id, { teamId, stream, origin, observedAt })
}
