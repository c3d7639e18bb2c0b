/** What explain concludes of a record: what each state changed and why it won, and what became of each event about it. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { Instant } from '../../src/core/time.ts'
import { explain } from '../../src/operate/explain.ts'
import type { State, StoredEvent, StoredRecord } from '../../src/operate/explain-queries.ts'
import { forms } from '../../src/streams/forms.ts'
import { packetResponses } from '../../src/streams/packet-responses.ts'

const world = vi.hoisted(() => ({
  record: {} as StoredRecord,
  /** Read in each event. */
  said: {} as Record<string, unknown>,
  asked: [] as unknown[],
  erased: [] as string[],
  closed: 0,
}))
vi.mock('../../src/warehouse/connect.ts', () => ({
  openSession: async (options: object) => {
    world.asked.push(options)
    const close = async () => {
      world.closed += 1
    }
    return { db: 'db', [Symbol.asyncDispose]: close }
  },
}))
vi.mock('../../src/operate/explain-queries.ts', () => ({
  readStoredRecord: async (_: unknown, key: object) => {
    world.asked.push(key)
    return world.record
  },
}))
vi.mock('../../src/ingest/drain/read-event.ts', () => ({
  readStoredEvent: (stored: { eventId: string }, version: string) => {
    world.asked.push([stored, version])
    return { result: world.said[stored.eventId] }
  },
}))
vi.mock('../../src/load/erasures.ts', () => ({
  hashesOf: async (_: unknown, team: number) => ({
    hashOf: ({ stream, id }: { stream: string; id: string }) => `${team} ${stream} ${id}`,
  }),
  erasedAmong: async (_: unknown, hashes: readonly string[]) =>
    new Set(hashes.filter((hash) => world.erased.includes(hash))),
}))

const at = (day: number, observed = day) =>
  ({ version: `2026-01-0${day}T00:00:00.000000Z`, observedAt: `2026-01-0${observed}T00:00:00.000000Z` }) as {
    version: Instant
    observedAt: Instant
  }
const state = (day: number, hash: string, more: Partial<State> = {}): State => ({
  ...{ ...at(day), deleted: false, hash, origin: `run:${day} page:1`, payload: `{"n": "${hash}"}` },
  ...{ supersededAt: null, ...more },
})
const gone = (day: number, more: Partial<State> = {}) =>
  state(day, '', { deleted: true, payload: null, ...more })
const event = (eventId: string, more: Partial<StoredEvent> = {}): StoredEvent => ({
  ...{ eventId, eventType: 'updated', receivedAt: at(9).version, status: 'done', attempts: 0 },
  ...{ body: Buffer.from('b'), ...more },
})
const read = (day: number, hash: string | null, more: object = {}) => ({
  kind: 'record',
  envelope: { ...at(day), updatedAt: null, content: hash === null ? null : { hash }, ...more },
})
const DEAD = [{ id: 1 }] as unknown as StoredRecord['deadLetters']

beforeEach(() => {
  const record = { states: [], events: [], deadLetters: [], refetch: null, runs: new Map() }
  Object.assign(world, { record, said: {}, asked: [], erased: [], closed: 0 })
})

const key = { teamId: 7, stream: forms, id: 'f' }
const explained = (record: Partial<StoredRecord>, of = key) => {
  Object.assign(world.record, record)
  return explain('postgres://there', of as typeof key, 'v2.1')
}
const outcomes = async (record: Partial<StoredRecord>, of = key) =>
  (await explained(record, of)).events.map(({ outcome }) => outcome)

test('each state is compared with the last one that has a payload, field by field, and in objects that have fields of their own', async () => {
  const payloads = [
    { id: 'f', name: 'a', emergency_contact: { name: 'x', form: { a: 1 } }, tags: { a: 1 }, gone: 1 },
    {
      id: 'f',
      name: 'b',
      emergency_contact: { name: 'y', form: { a: 2 }, phone: 2 },
      tags: { a: 2, b: 1 },
      extra: null,
    },
    // The order of fields is no change.
    { extra: null, id: 'f', name: 'b', emergency_contact: null, tags: { b: 1, a: 2 } },
  ]
  const [one, two, three] = payloads.map((payload) => JSON.stringify(payload))
  const { states } = await explained({
    states: [
      state(1, 'a', { payload: one! }),
      gone(2),
      state(3, 'b', { payload: two! }),
      state(4, 'c', { payload: three! }),
    ],
  })
  expect(states.map(({ wonBy, changes }) => [wonBy, changes])).toEqual([
    [null, []],
    ['later version', []],
    [
      'later version',
      [
        { field: 'emergency_contact.form', kind: 'changed', before: { a: 1 }, after: { a: 2 } },
        { field: 'emergency_contact.name', kind: 'changed', before: 'x', after: 'y' },
        { field: 'emergency_contact.phone', kind: 'added', before: undefined, after: 2 },
        { field: 'extra', kind: 'added', before: undefined, after: null },
        { field: 'gone', kind: 'removed', before: 1, after: undefined },
        { field: 'name', kind: 'changed', before: 'a', after: 'b' },
        // Its keys may be values.
        { field: 'tags', kind: 'changed', before: { a: 1 }, after: { a: 2, b: 1 } },
      ],
    ],
    [
      'later version',
      [
        {
          field: 'emergency_contact',
          kind: 'changed',
          before: expect.objectContaining({ name: 'y' }),
          after: null,
        },
      ],
    ],
  ])
  expect(world.asked).toEqual([{ url: 'postgres://there', purpose: 'explain' }, key])
  expect(world.closed).toBe(1)
})

test('in a stream whose own stamps decide, the later stamp wins, unless either state is a tombstone or has no stamp', async () => {
  const stamped = (day: number, stamp: string | null, more: Partial<State> = {}) =>
    state(day, `h${day}`, { payload: JSON.stringify({ updated_at: stamp }), ...more })
  const wonBy = async (...states: readonly State[]) =>
    (await explained({ states }, { ...key, stream: packetResponses as never })).states.at(-1)!.wonBy
  const [early, late] = ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']
  expect(await wonBy(stamped(5, early), stamped(3, late))).toBe('updated later')
  // Equal stamps leave the decision to the time of reading.
  expect(await wonBy(stamped(1, late), stamped(3, late))).toBe('read later')
  expect(await wonBy(stamped(1, early), stamped(3, null))).toBe('later version')
  expect(await wonBy(stamped(1, early), stamped(3, 'x'))).toBe('later version')
  expect(await wonBy(stamped(1, late), gone(3))).toBe('later version')
  expect(await wonBy(gone(1), stamped(3, early))).toBe('later version')
})

test('the outcome of an event that contains a state', async () => {
  const by = (id: string, more: Partial<State> = {}) => ({ origin: `event:${id}`, ...more })
  const states = [
    state(1, 'a', by('first', { supersededAt: '2026-01-02' })),
    gone(2, { supersededAt: '2026-01-03' }),
    state(3, 'c', by('twice', { supersededAt: '2026-01-04' })),
    // The content of the first state again: an event that repeats it names the first.
    state(3, 'a', by('restored', { supersededAt: '2026-01-04' })),
    state(4, 'd', by('last')),
  ]
  world.said = {
    ...{ first: read(1, 'a'), last: read(4, 'd'), again: read(5, 'a'), deletion: read(2, null) },
    ...{ twice: read(3, 'x'), late: read(3, 'e', at(3, 9)), ahead: read(5, 'e') },
    // Of the same version as the current state.
    ...{ before: read(4, 'z', at(4, 3)), after: read(4, 'b', at(4, 5)) },
    ...{ less: read(4, 'b'), more: read(4, 'z') },
  }
  const events = Object.keys(world.said).map((id) => event(id))
  const replaced = 'was partial, or the record that was fetched by id replaced it'
  const { events: shown } = await explained({ states, events })
  expect(Object.fromEntries(shown.map(({ eventId, outcome }) => [eventId, outcome]))).toEqual({
    first: 'won, and was superseded later',
    last: 'won, and is the current state',
    again: 'repeated a stored state: the content of event:first',
    deletion: 'repeated a stored state: the content of run:2 page:1',
    // The same event came with other content before.
    twice: 'lost to event:last (later version)',
    late: 'lost to event:last (later version)',
    before: 'lost to event:last (read later)',
    less: 'lost to event:last (content hash)',
    ...{ ahead: replaced, after: replaced, more: replaced },
  })
  expect(shown[0]).toEqual({
    ...{ eventId: 'first', eventType: 'updated', receivedAt: at(9).version, status: 'done', attempts: 0 },
    ...{ version: at(1).version, hash: 'a', outcome: 'won, and was superseded later' },
  })
  expect(shown[3]).toMatchObject({ version: at(2).version, hash: '' })
  expect(world.asked.at(-1)).toEqual([
    { teamId: 7, eventId: 'more', receivedAt: at(9).version, body: Buffer.from('b') },
    'v2.1',
  ])
  world.said = { e: read(1, 'a') }
  expect(await outcomes({ states: [], events: [event('e')], deadLetters: DEAD })).toEqual([
    'had no effect: the record is not stored',
  ])
})

test('the outcome of an event that contains none, waits, or could not be read', async () => {
  world.said = {
    ...{ waits: read(1, 'a'), tried: read(1, 'a'), dead: read(1, 'a'), broken: { kind: 'dead' } },
    ...{ asks: { kind: 'fetch', reason: 'partial' }, about: { kind: 'nothing' } },
  }
  const events = [
    ...[event('waits', { status: 'pending' }), event('tried', { status: 'pending', attempts: 3 })],
    ...[event('dead', { status: 'dead' }), event('broken'), event('asks'), event('about')],
  ]
  const fetched = (how: string) => [
    ...['waits in the inbox', 'waits in the inbox, after 3 attempt(s)'],
    ...['was dead-lettered', 'was dead-lettered'],
    ...[`did not settle the state (partial): ${how}`, 'concerns no stored record'],
  ]
  const refetch = { reason: 'partial', origin: 'event:asks', attempts: 2, requested_at: '', due_at: '' }
  expect(await outcomes({ events, refetch, states: [state(1, 'z')] })).toEqual(
    fetched('the record waits to be fetched by its id, 2 attempt(s) so far'),
  )
  const done = fetched('the record was fetched by its id')
  expect(await outcomes({ events, refetch: null, states: [state(1, 'z')] })).toEqual(done)
  expect(await outcomes({ events, states: [], deadLetters: DEAD })).toEqual(done)
  expect(await outcomes({ events, deadLetters: [] })).toEqual(
    fetched('the record was fetched by its id, and the service did not have it'),
  )
  const { events: shown } = await explained({ events })
  expect(shown.map(({ version, hash }) => [version, hash])).toEqual(events.map(() => [null, null]))
})

test('any trace makes a record known; without one, it was erased or never there', async () => {
  const refetch = { reason: 'partial', origin: 'x', attempts: 0, requested_at: '', due_at: '' }
  world.said = { e: { kind: 'nothing' } }
  const none = { states: [], events: [], deadLetters: [], refetch: null }
  for (const trace of [
    { states: [state(1, 'a')] },
    { events: [event('e')] },
    { deadLetters: DEAD },
    { refetch },
  ])
    expect(await explained({ ...none, ...trace })).toMatchObject(trace.events === undefined ? trace : {})
  await expect(explained(none)).rejects.toMatchObject({
    ...{ code: 'unknown_record', verdict: 'stop', hint: 'check the stream, the id and --team' },
    message: 'the warehouse has no record of forms with this id',
  })
  world.erased = ['7 forms f']
  await expect(explained(none)).rejects.toMatchObject({
    ...{ code: 'erased', verdict: 'stop' },
    message: 'this record of forms was erased, or belonged to a patient who was erased',
    hint: 'nothing of it is stored, and later states of it are skipped (intake_ops.erasures)',
  })
  expect(world.closed).toBe(6)
})
