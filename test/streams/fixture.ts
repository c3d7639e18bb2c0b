/**
 * What a fixture of a stream is, and how it becomes an envelope: along the same road as a page of the service.
 *
 * A fixture names only what is not null: columns, children, unknown fields, problems and drift it leaves out must be
 * absent from the tables.
 */
import type { Envelope } from '../../src/core/envelope.ts'
import { type JsonObject, parseJson } from '../../src/core/json.ts'
import type { Instant } from '../../src/core/time.ts'
import { type ReadRecord, readRecord, tombstone } from '../../src/normalize/read-record.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { at } from '../support/envelopes.ts'

export type Row = Readonly<Record<string, unknown>>

export interface Loaded {
  /** The record's own `id` unless named. */
  readonly id?: string
  /** The moment it was seen, unless named. */
  readonly version?: string
  readonly root: Row
  readonly children?: Readonly<Record<string, readonly Row[]>>
  /** The unknown fields, as canonical JSON text. */
  readonly extra?: string
  /** Path and reason of each problem, in order. */
  readonly problems?: readonly (readonly [path: string, reason: string])[]
  /** Path and type of what is not known, in any order. */
  readonly drift?: readonly (readonly [path: string, type: string])[]
}

export interface Fixture {
  /** The variant that it stands for. */
  readonly name: string
  /** The record, or its JSON as text or bytes where no value could say it. */
  readonly record: JsonObject | string | Buffer
  /** The content of the tables afterwards, or why the record is a dead letter. */
  readonly expected: Loaded | { readonly dead: string }
  /** The order of an object's keys stands for a position. */
  readonly ordered?: true
}

/** When fixtures are seen: noon of the first day of 2026. */
export const SEEN = at(0)

export function bodyOf(fixture: Fixture): Buffer {
  const { record } = fixture
  return Buffer.isBuffer(record)
    ? record
    : Buffer.from(typeof record === 'string' ? record : JSON.stringify(record))
}

export function readFixture(
  stream: Stream,
  fixture: Fixture,
  teamId: number,
  observedAt: Instant = SEEN,
  change: (value: unknown) => unknown = (value) => value,
): ReadRecord {
  const { value, invalidUtf8 } = parseJson(bodyOf(fixture))
  return readRecord(change(value), { teamId, stream, origin: 'test', observedAt, invalidUtf8 })
}

/** The envelopes of the fixtures that load. */
export function envelopesOf(
  stream: Stream,
  fixtures: readonly Fixture[],
  teamId: number,
  observedAt: Instant = SEEN,
  change?: (value: unknown) => unknown,
): readonly Envelope[] {
  return fixtures.flatMap((fixture) => {
    const read = readFixture(stream, fixture, teamId, observedAt, change)
    return read.kind === 'record' ? [read.envelope] : []
  })
}

export function tombstonesOf(envelopes: readonly Envelope[], observedAt: Instant): readonly Envelope[] {
  return envelopes.map(({ teamId, stream, id }) =>
    tombstone(id, { teamId, stream, origin: 'test', observedAt }),
  )
}

export function loadedOf(fixture: Fixture): Loaded {
  if ('dead' in fixture.expected) throw new Error(`${fixture.name} does not load`)
  return fixture.expected
}

export function idOf(fixture: Fixture): string {
  const { id } = loadedOf(fixture)
  if (id !== undefined) return id
  const { value } = parseJson(bodyOf(fixture))
  return String((value as { id: unknown }).id)
}
