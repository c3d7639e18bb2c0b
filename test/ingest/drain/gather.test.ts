/** The events of a batch become one state of each record of each team, and requests for those whose order is open. */
import { describe, expect, test } from 'vitest'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import { gather, keyOf } from '../../../src/ingest/drain/gather.ts'
import type { StoredEvent } from '../../../src/ingest/drain/read-event.ts'

const NOON = Date.UTC(2026, 0, 1, 12) * 1000
/** So many microseconds after noon. */
const at = (micros: number): Instant => instantOf(NOON + micros)

interface EventFields {
  readonly id?: string
  readonly name?: string
  /** Of the event, and of its arrival. */
  readonly stamp?: number
  readonly arrived?: number
  readonly updated?: number | null
  readonly team?: number
  readonly source?: string
  readonly type?: string
  readonly data?: unknown
}

let events = 0
function event(fields: EventFields): StoredEvent {
  const {
    id = 'p',
    name = 'A',
    stamp = 0,
    updated = null,
    team = 1,
    source = 'patient',
    type = 'updated',
  } = fields
  events += 1
  const data = {
    id,
    first_name: name,
    last_name: 'B',
    // Without it a packet is a summary.
    ...(source === 'packet' ? { forms: [] } : {}),
    ...(updated === null ? {} : { updated_at: at(updated) }),
  }
  const body = { id: `e${events}`, timestamp: at(stamp), event_type: type, source, data: fields.data ?? data }
  return {
    ...{ teamId: team, eventId: `e${events}`, body: Buffer.from(JSON.stringify(body)) },
    receivedAt: at(fields.arrived ?? 10_000_000 + events),
  }
}

async function gathered(...all: readonly EventFields[]) {
  const { groups, requests, dead, noted } = await gather(all.map(event), () => 'v2.1')
  const states = groups.map(({ stream, states: own }) => [
    stream.name,
    Object.fromEntries(
      [...own].map(([key, { envelope }]) => {
        const { version, content } = envelope
        return [key, [(content?.payload.first_name as string | undefined) ?? null, version]]
      }),
    ),
  ])
  return {
    states: Object.fromEntries(states) as Record<string, Record<string, [string | null, Instant]>>,
    requests: requests.map(({ teamId, stream, id, reason }) => `${teamId}/${stream}/${id} ${reason}`),
    dead: dead.size,
    noted,
    streams: groups.map(({ stream }) => stream.name),
  }
}
/** Of the one record. */
async function outcome(...all: readonly EventFields[]) {
  const { states, requests } = await gathered(...all)
  return [states.patients!['1/p']![0], requests]
}
const ASKED = ['1/patients/p contested']

test('nothing makes nothing', async () => {
  expect(await gathered()).toEqual({ states: {}, requests: [], dead: 0, noted: [], streams: [] })
})

test('the same ids of several teams and streams are records of their own, and no conflict', async () => {
  const all = [1, 2].flatMap((team) =>
    ['patient', 'packet'].map((source) => ({ team, source, name: `${source} of ${team}`, stamp: 10 - team })),
  )
  const { states, requests, streams } = await gathered(...all)
  expect(requests).toEqual([])
  // In the order of their names, in which every worker writes.
  expect(streams).toEqual(['packets', 'patients'])
  expect(Object.keys(states.patients!)).toEqual([
    keyOf({ teamId: 1, id: 'p' }),
    keyOf({ teamId: 2, id: 'p' }),
  ])
  expect(states.patients).toMatchObject({ '1/p': ['patient of 1', at(9)], '2/p': ['patient of 2', at(8)] })
})

describe('of two states', () => {
  test('that arrive in order, the later one stays', async () => {
    expect(await outcome({ name: 'first', stamp: 1 }, { name: 'second', stamp: 2 })).toEqual(['second', []])
  })

  test('that arrive in the other order, the later one stays, and the record is fetched', async () => {
    expect(await outcome({ name: 'second', stamp: 2 }, { name: 'first', stamp: 1 })).toEqual([
      'second',
      ASKED,
    ])
  })

  test('with the same content, none is fetched, in whatever order they arrive', async () => {
    expect(await outcome({ stamp: 2 }, { stamp: 1 })).toEqual(['A', []])
    expect(await outcome({ stamp: 1 }, { stamp: 1 })).toEqual(['A', []])
  })

  test('with the same time, either order leaves the same one, and the record is fetched', async () => {
    const [a, b] = [{ name: 'a' }, { name: 'b' }]
    const [one, other] = [await outcome(a, b), await outcome(b, a)]
    expect(one).toEqual(other)
    expect(one[1]).toEqual(ASKED)
  })

  test('that were stored together, one stays and the record is fetched, though their stamps have an order', async () => {
    expect(
      await outcome({ name: 'first', stamp: 1, arrived: 5 }, { name: 'second', stamp: 2, arrived: 5 }),
    ).toEqual(['second', ASKED])
  })

  test.each([1, 1_000, 3_000_000])(
    'whose own stamps say otherwise by %i µs the record is fetched',
    async (by) => {
      const later = { name: 'later', stamp: 10_000_000 + 1, updated: by }
      const earlier = { name: 'earlier', stamp: 10_000_000 + 5, updated: 0 }
      // The later one arrived first, and loses to the stamp of the other.
      expect(await outcome(later, earlier)).toEqual(['earlier', ASKED])
      expect((await outcome(earlier, later))[1]).toEqual(ASKED)
    },
  )

  test('whose own stamps agree, none is fetched', async () => {
    expect(await outcome({ name: 'a', stamp: 10, updated: 5 }, { name: 'b', stamp: 11, updated: 5 })).toEqual(
      ['b', []],
    )
    expect(await outcome({ name: 'a', stamp: 10, updated: 5 }, { name: 'b', stamp: 11, updated: 6 })).toEqual(
      ['b', []],
    )
  })

  test('one of them a delete: it wins at the same time, and an earlier delete is a conflict', async () => {
    const gone = { type: 'deleted', stamp: 5 }
    expect(await outcome({ stamp: 4 }, gone)).toEqual([null, []])
    expect(await outcome({ stamp: 5 }, gone)).toEqual([null, ASKED])
    expect(await outcome(gone, { stamp: 4 })).toEqual([null, ASKED])
    expect(await outcome(gone, { stamp: 6 })).toEqual(['A', []])
    // Updated before the deletion and stamped after it: who knows.
    expect(await outcome(gone, { stamp: 6, updated: 4 })).toEqual(['A', ASKED])
  })
})

test('a conflict between any two of three states requests a fetch, once each time it is found', async () => {
  const { states, requests } = await gathered(
    { name: 'third', stamp: 3 },
    { name: 'first', stamp: 1 },
    { name: 'fourth', stamp: 4 },
    { name: 'second', stamp: 2 },
  )
  expect(states.patients!['1/p']![0]).toBe('fourth')
  expect(requests).toEqual([...ASKED, ...ASKED])
})

describe('a packet response, which cannot be fetched by id', () => {
  const eventWith = (over: EventFields & { readonly submitted: boolean }) => ({
    ...over,
    source: 'packet_response',
    data: {
      ...{ id: 'p', packet: 'k', is_submitted: over.submitted, submitted_at: null, is_archived: false },
      ...{
        form_index: 1,
        is_queued: false,
        responses: [],
        created_at: at(0),
        updated_at: at(over.updated ?? 0),
      },
    },
  })
  test('keeps the state with the later updated_at, under the later version of the two, and is not fetched', async () => {
    const earlier = eventWith({ submitted: false, stamp: 9_000, updated: 1 })
    const later = eventWith({ submitted: true, stamp: 5_000, updated: 2 })
    for (const order of [
      [earlier, later],
      [later, earlier],
    ]) {
      const { groups, requests } = await gather(order.map(event), () => 'v2.1')
      const { envelope } = groups[0]!.states.get('1/p')!
      expect(envelope.content!.payload.is_submitted).toBe(true)
      expect(requests).toEqual([])
      if (order[0] === earlier) expect(envelope.version).toBe(at(9_000))
    }
  })
})

test('an unreadable event is a dead letter once, of its own team, and the other events are read', async () => {
  const broken: StoredEvent = { ...event({ team: 2 }), body: Buffer.from('{') }
  const result = await gather([event({}), broken, event({ id: 'q' })], () => 'v2.1')
  expect([...result.dead]).toEqual([broken])
  expect(result.noted).toMatchObject([{ stream: 'inbox', deadLetters: [{ teamId: 2 }] }])
  expect([...result.groups[0]!.states.keys()]).toEqual(['1/p', '1/q'])
})

test('an unknown type or source is counted for the team that sent it', async () => {
  const { noted } = await gathered(
    { team: 1 },
    { team: 2, type: 'merged' },
    { team: 1, type: 'merged' },
    { team: 2, type: 'merged' },
    { team: 2, source: 'invoice' },
  )
  expect(noted.map(({ stream, findings }) => [stream, [...findings.driftAt].sort()])).toEqual([
    ['inbox', [['[2,"source.invoice","string"]', 1]]],
    [
      'patients',
      [
        ['[1,"event_type.merged","string"]', 1],
        ['[2,"event_type.merged","string"]', 2],
      ],
    ],
  ])
})

test('dead letters of several streams are written in the order of their names, as every worker does', async () => {
  const nameless = { type: 'deleted', data: {} }
  const result = await gather(
    [event({ ...nameless, source: 'patient' }), event({ ...nameless, source: 'form' })],
    () => 'v2.1',
  )
  expect(result.noted.map(({ stream }) => stream)).toEqual(['forms', 'patients'])
})

test('two deletions of a record, in whatever order they arrive, are no conflict', async () => {
  const gone = (stamp: number) => ({ type: 'deleted', stamp })
  expect(await outcome(gone(1), gone(2))).toEqual([null, []])
  expect(await outcome(gone(2), gone(1))).toEqual([null, []])
})

test('a partial record is fetched, and does not affect the state of others', async () => {
  const { states, requests } = await gathered({ data: { id: 'p' } }, { id: 'q' })
  expect(Object.keys(states.patients!)).toEqual(['1/q'])
  expect(requests).toEqual(['1/patients/p partial'])
})

test('more events than are read in one turn are all there', async () => {
  const all = Array.from({ length: 501 }, (_, place) => ({ id: `p${place}`, stamp: place }))
  expect(Object.keys((await gathered(...all)).states.patients!)).toHaveLength(501)
})
