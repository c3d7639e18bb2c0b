/** Limits on concurrent requests: in total, for large bodies, and per team. */
import { expect, test } from 'vitest'
import { openInFlight } from '../../../src/ingest/http/in-flight.ts'

const LIMITS = { eventsInFlight: 8, bytesInFlight: 800_000, connections: 100 }

const enterAll = (teamId: number, inFlight: ReturnType<typeof openInFlight>) => {
  const holds = []
  for (let hold = inFlight.enter(teamId); hold !== null; hold = inFlight.enter(teamId)) holds.push(hold)
  return holds
}

test('one team among several leaves a quarter of the requests to the others', () => {
  const inFlight = openInFlight(LIMITS, 2)
  const flood = enterAll(1, inFlight)
  expect(flood).toHaveLength(6)
  const other = inFlight.enter(2)
  expect(other).not.toBeNull()
  for (const hold of [...flood, other!]) hold.release()
  expect([inFlight.events, inFlight.bytes]).toEqual([0, 0])
  // Returned capacity can be used again.
  expect(enterAll(1, inFlight)).toHaveLength(6)
})

test('with fewer connections than requests, it leaves a quarter of the connections', () => {
  expect(enterAll(1, openInFlight({ ...LIMITS, connections: 4 }, 2))).toHaveLength(3)
})

test('a single team may use everything', () => {
  expect(enterAll(1, openInFlight({ ...LIMITS, connections: 4 }, 1))).toHaveLength(8)
})

test('bodies of one team leave a quarter of the bytes to those of another', () => {
  const inFlight = openInFlight({ ...LIMITS, eventsInFlight: 100 }, 2)
  const fits = (teamId: number) => inFlight.enter(teamId)!.grow(60_000)
  // Returned bytes can be used again.
  for (let times = 0; times < 20; times++) {
    const reservation = inFlight.enter(1)!
    expect(reservation.grow(60_000)).toBe(true)
    reservation.release()
  }
  expect(Array.from({ length: 20 }, () => fits(1)).filter(Boolean)).toHaveLength(10)
  expect(Array.from({ length: 20 }, () => fits(2)).filter(Boolean)).toHaveLength(3)
})

test('large bodies of one team leave more', () => {
  const inFlight = openInFlight({ ...LIMITS, eventsInFlight: 100 }, 2)
  // 450,000 of a team for large bodies, 600,000 in total.
  expect(inFlight.enter(1)!.grow(450_001)).toBe(false)
  expect(inFlight.enter(1)!.grow(450_000)).toBe(true)
  expect(inFlight.enter(2)!.grow(150_001)).toBe(false)
  expect(inFlight.enter(2)!.grow(150_000)).toBe(true)
})

test('bodies that arrive in small parts are large once they add up, and leave a quarter to small ones', () => {
  const inFlight = openInFlight({ ...LIMITS, eventsInFlight: 100 }, 1)
  const senders = [inFlight.enter(1)!, inFlight.enter(1)!]
  for (let turn = 0; turn < 100; turn += 1) for (const sender of senders) sender.grow(10_000)
  expect(inFlight.bytes).toBe(600_000)
  const small = Array.from({ length: 4 }, () => inFlight.enter(1)!.grow(60_000))
  expect(small).toEqual([true, true, true, false])
})

test('all teams together use no more than the total', () => {
  const inFlight = openInFlight(LIMITS, 3)
  enterAll(1, inFlight)
  enterAll(2, inFlight)
  expect(inFlight.events).toBe(8)
  expect(inFlight.enter(3)).toBeNull()
})
