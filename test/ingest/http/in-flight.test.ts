/** What requests may hold at once: all of them, large ones, and those of one team. */
import { expect, test } from 'vitest'
import { openInFlight } from '../../../src/ingest/http/in-flight.ts'

const LIMITS = { eventsInFlight: 8, bytesInFlight: 800_000, connections: 100 }

const enterAll = (teamId: number, inFlight: ReturnType<typeof openInFlight>) => {
  const holds = []
  for (let hold = inFlight.enter(teamId); hold !== null; hold = inFlight.enter(teamId)) holds.push(hold)
  return holds
}

test('a team among several leaves a quarter of the requests to the others', () => {
  const inFlight = openInFlight(LIMITS, 2)
  const flood = enterAll(1, inFlight)
  expect(flood).toHaveLength(6)
  const other = inFlight.enter(2)
  expect(other).not.toBeNull()
  for (const hold of [...flood, other!]) hold.release()
  expect([inFlight.events, inFlight.bytes]).toEqual([0, 0])
  // What was given back can be had again.
  expect(enterAll(1, inFlight)).toHaveLength(6)
})

test('where there are fewer connections than requests, it leaves a quarter of them', () => {
  expect(enterAll(1, openInFlight({ ...LIMITS, connections: 4 }, 2))).toHaveLength(3)
})

test('the only team may have everything', () => {
  expect(enterAll(1, openInFlight({ ...LIMITS, connections: 4 }, 1))).toHaveLength(8)
})

test('bodies of one team leave a quarter of the bytes to those of another', () => {
  const inFlight = openInFlight({ ...LIMITS, eventsInFlight: 100 }, 2)
  const fits = (teamId: number) => inFlight.enter(teamId)!.grow(60_000)
  expect(Array.from({ length: 20 }, () => fits(1)).filter(Boolean)).toHaveLength(10)
  expect(Array.from({ length: 20 }, () => fits(2)).filter(Boolean)).toHaveLength(3)
})

test('large bodies of one team leave more', () => {
  const inFlight = openInFlight({ ...LIMITS, eventsInFlight: 100 }, 2)
  // 450,000 of a team where a body is large, 600,000 of all.
  expect(inFlight.enter(1)!.grow(450_001)).toBe(false)
  expect(inFlight.enter(1)!.grow(450_000)).toBe(true)
  expect(inFlight.enter(2)!.grow(150_001)).toBe(false)
  expect(inFlight.enter(2)!.grow(150_000)).toBe(true)
})

test('all teams together have no more than there is', () => {
  const inFlight = openInFlight(LIMITS, 3)
  enterAll(1, inFlight)
  enterAll(2, inFlight)
  expect(inFlight.events).toBe(8)
  expect(inFlight.enter(3)).toBeNull()
})
