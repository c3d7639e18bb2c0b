/** What the events of a batch ask for: records in conflict, or in part, each for the event that it is about. */
import { expect, test } from 'vitest'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import { gather } from '../../../src/ingest/drain/gather.ts'
import type { StoredEvent } from '../../../src/ingest/drain/read-event.ts'
import { turnsDuring } from '../../support/turns.ts'

const at = (seconds: number): Instant => instantOf(Date.UTC(2026, 0, 1, 12) * 1000 + seconds * 1_000_000)

interface EventFields {
  readonly stamp: number
  readonly arrived?: number
  readonly data?: object
}

let events = 0
function event({ stamp, arrived, data = {} }: EventFields): StoredEvent {
  events += 1
  const eventId = `e${events}`
  const patient = { id: 'p', first_name: `at ${stamp}`, last_name: 'B', ...data }
  const body = { id: eventId, timestamp: at(stamp), event_type: 'updated', source: 'patient', data: patient }
  return {
    ...{ teamId: 1, eventId, body: Buffer.from(JSON.stringify(body)) },
    receivedAt: at(arrived ?? 1_000 + events),
  }
}

async function gathered(rows: readonly StoredEvent[]) {
  const { groups, requests } = await gather(rows, () => 'v2.1')
  return {
    states: [...groups[0]!.states.values()].map(({ envelope }) => envelope.content!.payload.first_name),
    lacking: groups[0]!.lacking.map(({ content }) => content!.payload.first_name),
    requests,
    reasons: requests.map(({ reason }) => reason),
  }
}

test('a state without values of the one before it is left out where it is later, and loses where it is earlier', async () => {
  const whole = event({ stamp: 10, data: { email: 'a@example.com' } })
  expect(await gathered([whole, event({ stamp: 20 })])).toMatchObject({
    ...{ states: ['at 10'], lacking: ['at 20'], reasons: [] },
  })
  expect(await gathered([whole, event({ stamp: 5 })])).toMatchObject({
    ...{ states: ['at 10'], lacking: [], reasons: ['contested'] },
  })
  // One value among several fields that are left out is enough; empty ones are none.
  for (const [city, lacking] of [
    ['Bern', ['at 20']],
    ['', []],
  ] as const) {
    const several = event({ stamp: 10, data: { email: '', middle_name: null, city, tags: [] } })
    expect((await gathered([several, event({ stamp: 20 })])).lacking).toEqual(lacking)
  }
})

test('a state that was stored together with the one that won before it is in conflict with that one', async () => {
  const [first, second] = [event({ stamp: 1, arrived: 5 }), event({ stamp: 2, arrived: 6 })]
  for (const [arrived, reasons] of [
    [5, []],
    [6, ['contested']],
    [7, []],
  ] as const)
    expect(await gathered([first, second, event({ stamp: 3, arrived })])).toMatchObject({
      ...{ states: ['at 3'], reasons },
    })
})

test('a request says for which event it is, whatever its reason, and asks for any state of the record', async () => {
  const rows = [
    event({ stamp: 1, data: { id: 'part', first_name: undefined, last_name: undefined } }),
    event({ stamp: 2 }),
    event({ stamp: 1 }),
  ]
  const { requests } = await gathered(rows)
  const of = { teamId: 1, stream: 'patients', since: null }
  expect(requests).toEqual([
    { ...of, id: 'part', reason: 'partial', origin: `event:${rows[0]!.eventId}` },
    { ...of, id: 'p', reason: 'contested', origin: `event:${rows[2]!.eventId}` },
  ])
})

test('other work of the process goes on while many events are read', async () => {
  const rows = Array.from({ length: 120 }, () => event({ stamp: 1 }))
  expect(await turnsDuring(() => gathered(rows.slice(0, 49)))).toBe(0)
  expect(await turnsDuring(() => gathered(rows))).toBe(2)
})
