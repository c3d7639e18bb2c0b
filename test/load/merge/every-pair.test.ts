/**
 * Every pair of a stored and an incoming state, where any of their times, contents and origins tie or differ by a
 * microsecond: which one stays, which columns it leaves, and whether the record is fetched.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Envelope, stampsDisagree, supersedes } from '../../../src/core/envelope.ts'
import { laterOf } from '../../../src/core/time.ts'
import { type BatchSource, prepareStaging, writeBatch } from '../../../src/load/merge/write-batch.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { packetResponses } from '../../../src/streams/packet-responses.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { rowsOf } from '../loading.ts'

let database: TestDatabase
let session: Session
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  for (const stream of [patients, packetResponses]) await prepareStaging(session, stream)
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(() =>
  rowsOf(
    session,
    `truncate intake_raw.records, intake_raw.record_history, intake.patients, intake.patient_tags,
       intake.packet_responses, intake.packet_response_members`,
  ),
)

interface State {
  /** Microseconds. */
  readonly seen: number
  readonly updated?: number | null
  readonly mood?: string
  readonly origin: string
  readonly gone?: boolean
}

const SECOND = 1_000_000
const MOODS = ['x', 'y']
const states = (seen: readonly number[], updated: readonly (number | null)[], origins: readonly string[]) =>
  seen.flatMap((at) =>
    origins.flatMap((origin): readonly State[] => [
      { seen: at, origin, gone: true },
      ...updated.flatMap((stamp) => MOODS.map((mood) => ({ seen: at, updated: stamp, mood, origin }))),
    ]),
  )

const STORED = states(
  [10 * SECOND],
  [null, 10 * SECOND, 11 * SECOND],
  ['event:e', 'event:e refetch', 'run:1 page:1'],
)
const NEAR = [10 * SECOND - 1, 10 * SECOND, 10 * SECOND + 1, 11 * SECOND, 12 * SECOND - 1, 12 * SECOND]
const incoming = (origin: string) => states(NEAR, [null, 10 * SECOND, 11 * SECOND, 13 * SECOND], [origin])

function envelopeOf(stream: Stream, id: string, { seen, updated, mood, origin, gone }: State): Envelope {
  const made = { teamId: 1, stream: stream.name, observedAt: at(seen), origin }
  if (gone) return tombstoneEnvelope(id, made)
  const stamp = updated == null ? {} : { updated_at: at(updated) }
  const record =
    stream === patients
      ? { last_name: mood, patient_tags: [mood, mood] }
      : { is_submitted: false, responses: [mood] }
  return recordEnvelope({ id, ...record, ...stamp }, made)
}

interface Pair {
  readonly id: string
  readonly stored: Envelope
  readonly incoming: Envelope
}

const pairsOf = (stream: Stream, origin: string): readonly Pair[] =>
  STORED.flatMap((stored, row) =>
    incoming(origin).map((state, column) => {
      const id = `${row}-${column}`
      return { id, stored: envelopeOf(stream, id, stored), incoming: envelopeOf(stream, id, state) }
    }),
  )

async function merged(stream: Stream, pairs: readonly Pair[], from: BatchSource) {
  await session.client.query('begin')
  const lines = (side: 'stored' | 'incoming') =>
    linesOf(
      stream,
      pairs.map((pair) => pair[side]),
    )
  await writeBatch(session, { stream, lines: lines('stored'), from: { kind: 'empty' } })
  await session.client.query('commit; begin')
  const written = await writeBatch(session, { stream, lines: lines('incoming'), from })
  await session.client.query('commit')
  return written
}

/** What the tables show of a record, for one state. */
const shown = (stream: Stream, { id, content, ...state }: Envelope, version = state.version) => ({
  ...{ id, version, observed: state.observedAt, updated: state.updatedAt, deleted: content === null },
  ...{ hash: content?.hash ?? '', origin: state.origin },
  ...{ rootVersion: version, rootOrigin: state.origin, rootHash: content?.hash ?? null },
  rootDeleted: content === null ? version : null,
  children:
    content === null
      ? null
      : (content.payload[stream === patients ? 'patient_tags' : 'responses'] as string[]).join(),
})

const asInstant = (column: string) => `to_char(${column}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
const stored = (stream: Stream) => {
  const [child, parent, value] =
    stream === patients
      ? ['patient_tags', 'patient_id', 'name']
      : ['packet_response_members', 'packet_response_id', 'response_id']
  return rowsOf(
    session,
    `select id, ${asInstant('version')} as version, ${asInstant('observed_at')} as observed, ${asInstant('updated_at')} as updated,
       deleted, encode(record.hash, 'hex') as hash, origin, ${asInstant('_version')} as "rootVersion", _origin as "rootOrigin",
       encode(_hash, 'hex') as "rootHash", ${asInstant('_deleted_at')} as "rootDeleted",
       (select string_agg(${value}, ',' order by position) from intake.${child} child where child.${parent} = id) as children
     from (select id, version, observed_at, updated_at, deleted, hash, origin from intake_raw.records) record
     join (select id, _version, _origin, _hash, _deleted_at from intake.${stream.table}) root using (id) order by id collate "C"`,
  )
}
const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)

const differ = ({ stored, incoming }: Pair) => stored.content?.hash !== incoming.content?.hash
const isAnswer = ({ origin }: Envelope) => !origin.startsWith('event:') || origin.endsWith(' refetch')
const until = (second: Envelope) => at(microsAfterNoon(second) + 2 * SECOND)
const microsAfterNoon = ({ observedAt }: Envelope) =>
  (Date.parse(`${observedAt.slice(0, 19)}Z`) - Date.UTC(2026, 0, 1, 12)) * 1_000 +
  Number(observedAt.slice(20, 26))

/** Of a winner against other content. */
const UNDECIDED: Readonly<Record<string, (pair: Pair) => boolean>> = {
  events: (pair) =>
    pair.stored.version === pair.incoming.version ||
    stampsDisagree(pair.incoming, pair.stored) ||
    (isAnswer(pair.stored) &&
      (pair.stored.content === null || pair.incoming.observedAt < until(pair.stored))),
  pages: (pair) => stampsDisagree(pair.incoming, pair.stored),
  'early pages': (pair) => stampsDisagree(pair.incoming, pair.stored) || isLoadedSince(pair),
  answers: () => false,
  'early answers': (pair) => isLoadedSince(pair),
}
const isLoadedSince = ({ stored, incoming }: Pair) =>
  stored.version < incoming.version &&
  !(stored.origin.startsWith('run:') && incoming.origin.startsWith('run:'))

const LATE = '2100-01-01T00:00:00Z'
const EARLY = '2020-01-01T00:00:00Z'
const WAYS: readonly (readonly [string, string, BatchSource])[] = [
  ['events', 'event:f', { kind: 'events' }],
  ['pages', 'run:1 page:2', { kind: 'pages', requestedAt: LATE }],
  ['early pages', 'run:1 page:2', { kind: 'pages', requestedAt: EARLY }],
  ['answers', 'event:f refetch', { kind: 'answers', requestedAt: LATE }],
  ['early answers', 'run:1 fetch', { kind: 'answers', requestedAt: EARLY }],
]

describe.each(WAYS)('of a stored state and one from %s', (name, origin, from) => {
  test('the greater stays with all its columns and children, and records in conflict are returned', async () => {
    const pairs = pairsOf(patients, origin)
    const { changed, deleted, conflicts } = await merged(patients, pairs, from)
    const won = pairs.filter((pair) => supersedes(pair.incoming, pair.stored))
    expect(await stored(patients)).toEqual(
      pairs.map((pair) => shown(patients, won.includes(pair) ? pair.incoming : pair.stored)).sort(byId),
    )
    expect([changed, deleted]).toEqual([
      won.filter((pair) => pair.incoming.content !== null).length,
      won.filter((pair) => pair.incoming.content === null).length,
    ])
    const expected = pairs.filter((pair) => differ(pair) && (!won.includes(pair) || UNDECIDED[name]!(pair)))
    expect(conflicts.map(({ id }) => id).sort()).toEqual(expected.map(({ id }) => id).sort())
  })
})

test('of two states that nothing but events brings, the one updated later stays, under the later version', async () => {
  const pairs = pairsOf(packetResponses, 'event:f')
  await merged(packetResponses, pairs, { kind: 'events' })
  expect(await stored(packetResponses)).toEqual(
    pairs
      .map((pair) =>
        supersedes(pair.incoming, pair.stored, true)
          ? shown(packetResponses, pair.incoming, laterOf(pair.incoming.version, pair.stored.version))
          : shown(packetResponses, pair.stored),
      )
      .sort(byId),
  )
})
