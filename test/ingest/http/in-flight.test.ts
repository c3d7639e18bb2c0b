/** Limits on concurrent requests: in total, for large bodies, per team, and for bodies that nobody signed. */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  LIMITS as DEFAULTS,
  type InFlight,
  openInFlight,
  type Reservation,
} from '../../../src/ingest/http/in-flight.ts'

const LIMITS = { eventsInFlight: 8, bytesInFlight: 800_000, connections: 100, staleMs: 1_000 }

function open(limits: Partial<typeof LIMITS>, teams: number) {
  let now = 0
  let looks = 0
  const clock = {
    now() {
      // A search for room that finds no end fails here.
      if (++looks > 100_000) throw new Error('too many looks at the clock')
      return now
    },
  }
  const inFlight = openInFlight({ ...LIMITS, ...limits }, teams, clock)
  const pass = (seconds: number) => {
    now += seconds * 1_000_000
  }
  return { inFlight, pass }
}

/** Signed events of a team, as many as are accepted. */
function acceptAll(inFlight: InFlight, teamId: number, bytes = 0): readonly Reservation[] {
  const own: Reservation[] = []
  for (;;) {
    const next = inFlight.enter(teamId, null)
    if (!next.accept(bytes)) {
      next.release()
      return own
    }
    own.push(next)
  }
}

test('one team among several leaves a quarter of the events to the others', () => {
  const { inFlight } = open({}, 2)
  const flood = acceptAll(inFlight, 1)
  expect(flood).toHaveLength(6)
  const other = inFlight.enter(2, null)
  expect(other.accept(10)).toBe(true)
  for (const own of [...flood, other]) own.release()
  expect([inFlight.events, inFlight.bytes]).toEqual([0, 0])
  // Returned capacity can be used again.
  expect(acceptAll(inFlight, 1)).toHaveLength(6)
})

test('a team leaves a quarter of the connections to others when there are fewer connections than events', () => {
  expect(acceptAll(open({ connections: 4 }, 2).inFlight, 1)).toHaveLength(3)
})

test('a single team may use everything', () => {
  expect(acceptAll(open({ connections: 4 }, 1).inFlight, 1)).toHaveLength(8)
})

test('bodies of one team leave a quarter of the bytes to those of another', () => {
  const { inFlight } = open({ eventsInFlight: 100 }, 2)
  // Returned bytes can be used again.
  for (let times = 0; times < 20; times++) {
    const reservation = inFlight.enter(1, null)
    expect(reservation.accept(60_000)).toBe(true)
    reservation.release()
  }
  expect(acceptAll(inFlight, 1, 60_000)).toHaveLength(10)
  expect(acceptAll(inFlight, 2, 60_000)).toHaveLength(3)
})

test('large bodies of one team leave more', () => {
  const { inFlight } = open({ eventsInFlight: 100 }, 2)
  // 450,000 of a team for large bodies, 600,000 in total.
  expect(inFlight.enter(1, null).accept(450_001)).toBe(false)
  expect(inFlight.enter(1, null).accept(450_000)).toBe(true)
  expect(inFlight.enter(2, null).grow(150_001)).toBe(false)
  expect(inFlight.enter(2, null).grow(150_000)).toBe(true)
})

test('bodies that arrive in small parts are large once they add up, and leave a quarter to small ones', () => {
  const { inFlight } = open({ eventsInFlight: 100 }, 1)
  const senders = [inFlight.enter(1, null), inFlight.enter(1, null)]
  for (let turn = 0; turn < 100; turn += 1) for (const sender of senders) sender.grow(10_000)
  expect(inFlight.bytes).toBe(600_000)
  const small = Array.from({ length: 4 }, () => inFlight.enter(1, null).grow(60_000))
  expect(small).toEqual([true, true, true, false])
})

test('all teams together use no more than the total', () => {
  const { inFlight } = open({}, 3)
  acceptAll(inFlight, 1)
  acceptAll(inFlight, 2)
  expect(inFlight.events).toBe(8)
  expect(inFlight.enter(3, null).accept(1)).toBe(false)
})

test('bodies that are not checked have half of the bytes, those of one peer a little less, and signed ones the rest', () => {
  const { inFlight } = open({ eventsInFlight: 100, bytesInFlight: 600_000 }, 1)
  const fits = (peer: string | null) => inFlight.enter(1, peer).grow(50_000)
  expect(Array.from({ length: 20 }, () => fits('a')).filter(Boolean)).toHaveLength(5)
  expect(Array.from({ length: 20 }, () => fits('b')).filter(Boolean)).toHaveLength(1)
  expect(fits('c')).toBe(false)
  expect(Array.from({ length: 20 }, () => fits(null)).filter(Boolean)).toHaveLength(6)
  expect(inFlight.bytes).toBe(600_000)
})

test('a body that has been arriving for a second makes room for its peer, or for all, but not one that waits for us', () => {
  const { inFlight, pass } = open({ eventsInFlight: 100, bytesInFlight: 600_000 }, 1)
  const displaced: string[] = []
  const enter = (peer: string, name: string) => {
    const own = inFlight.enter(1, peer)
    own.onDisplaced(() => displaced.push(name))
    return own
  }
  const waiting = enter('a', 'waiting')
  expect(waiting.hold(45_000)).toBe(true)
  const stalled = ['first', 'second', 'third'].map((name) => enter('a', name))
  for (const each of stalled) expect(each.grow(50_000)).toBe(true)
  const others = ['fourth', 'fifth'].map((name) => enter('b', name))
  for (const each of others) expect(each.grow(50_000)).toBe(true)
  const newcomer = enter('c', 'newcomer')
  expect(newcomer.grow(50_000)).toBe(false)
  pass(0.999)
  expect(newcomer.grow(50_000)).toBe(false)
  pass(0.001)
  const own = enter('b', 'own')
  expect(own.grow(50_000)).toBe(true)
  expect(displaced).toEqual(['first'])
  expect(enter('a', 'same').grow(50_000)).toBe(true)
  expect(displaced).toEqual(['first', 'second'])
  expect(waiting.accept(45_000)).toBe(true)
  for (const each of [...stalled, ...others, own, waiting]) each.release()
  expect(inFlight.bytes).toBe(50_000)
})

test('a peer beyond its share makes room among its own bodies, not among older ones of others', () => {
  const { inFlight, pass } = open({ eventsInFlight: 100, bytesInFlight: 600_000 }, 1)
  const displaced: string[] = []
  const grow = (peer: string, name: string) => {
    const own = inFlight.enter(1, peer)
    own.onDisplaced(() => displaced.push(name))
    return own.grow(50_000)
  }
  expect(grow('b', 'of another')).toBe(true)
  expect(['first', 'second', 'third', 'fourth', 'fifth'].every((name) => grow('a', name))).toBe(true)
  pass(1)
  expect(grow('a', 'sixth')).toBe(true)
  expect(displaced).toEqual(['first'])
})

test('where no other is left, a body makes no room for itself', () => {
  const { inFlight, pass } = open({ bytesInFlight: 600_000 }, 1)
  const only = inFlight.enter(1, 'a')
  only.onDisplaced(() => expect.unreachable('it was displaced'))
  expect(only.grow(200_000)).toBe(true)
  pass(60)
  expect(only.grow(10_000)).toBe(false)
  expect(inFlight.bytes).toBe(200_000)
})

test('bodies that are not checked of one team leave a quarter of their half to those of another', () => {
  const { inFlight } = open({}, 2)
  const fits = (teamId: number, peer: string) => inFlight.enter(teamId, peer).grow(50_000)
  const peers = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  expect(peers.filter((peer) => fits(1, peer))).toHaveLength(6)
  expect(peers.filter((peer) => fits(2, peer))).toHaveLength(2)
})

test('an event that waits for us reserves its body and what the request costs', () => {
  const { inFlight } = open({ bytesInFlight: 600_000 }, 1)
  const waiting = inFlight.enter(1, 'a')
  expect(waiting.hold(10_000)).toBe(true)
  expect(inFlight.bytes).toBe(14_096)
  expect(inFlight.enter(1, 'a').hold(300_000)).toBe(false)
  waiting.release()
  expect([inFlight.events, inFlight.bytes]).toEqual([1, 0])
})

test('a body of 64 KiB counts as a small one, and with a byte more as a large one', () => {
  const size = 64 * 1024
  const twice = (bytes: number) => {
    const { inFlight } = open({ bytesInFlight: 2 * size + 2 }, 1)
    return [1, 2].map(() => inFlight.enter(1, null).accept(bytes))
  }
  expect([twice(size), twice(size + 1)]).toEqual([
    [true, true],
    [true, false],
  ])
  // Of a stranger: 45 % of everything, and of three quarters.
  const fits = (bytes: number) => open({ bytesInFlight: 145_645 }, 1).inFlight.enter(1, 'a').grow(bytes)
  expect([fits(size), fits(size + 1)]).toEqual([true, false])
})

test('an event that waits for us reserves no more than its body again', () => {
  const { inFlight } = open({}, 1)
  const waiting = inFlight.enter(1, 'a')
  for (const [bytes, reserved] of [
    [10_000, 14_096],
    [10_000, 14_096],
    [5_000, 14_096],
  ] as const) {
    if (inFlight.bytes === 0) expect(waiting.grow(9_000)).toBe(true)
    expect(waiting.hold(bytes)).toBe(true)
    expect(inFlight.bytes).toBe(reserved)
  }
})

/** What an ingester has room for that nothing is under way in: events and bytes of each team and peer. */
function roomOf(inFlight: InFlight): readonly unknown[] {
  const own: Reservation[] = []
  const enter = (teamId: number, peer: string | null) => {
    const next = inFlight.enter(teamId, peer)
    own.push(next)
    return next
  }
  const found: unknown[] = [inFlight.bytes, inFlight.events]
  for (const [teamId, peer] of [1, 2].flatMap((teamId) =>
    ['a', 'b', null].map((peer) => [teamId, peer] as const),
  ))
    found.push(Array.from({ length: 8 }, () => enter(teamId, peer).grow(50_000)))
  for (const each of own.splice(0)) each.release()
  for (const teamId of [1, 2]) found.push(Array.from({ length: 8 }, () => enter(teamId, null).accept(50_000)))
  for (const each of own) each.release()
  return [...found, inFlight.bytes, inFlight.events]
}

test('whatever requests did, and in whatever order, there is as much room after them as at the start', () => {
  const room = roomOf(open({}, 2).inFlight)
  const step = fc.record({
    request: fc.nat(9),
    what: fc.constantFrom('grow', 'hold', 'accept', 'release', 'pass'),
    bytes: fc.constantFrom(1, 30_000, 66_000, 200_000),
  })
  const places = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.constantFrom('a', 'b', null)), {
    ...{ minLength: 10, maxLength: 10 },
  })
  fc.assert(
    fc.property(places, fc.array(step, { maxLength: 60 }), (requests, steps) => {
      const { inFlight, pass } = open({}, 2)
      const own = new Map<number, Reservation>()
      const accepted = new Set<number>()
      for (const { request, what, bytes } of steps) {
        const [teamId, peer] = requests[request]!
        const reservation = own.get(request) ?? inFlight.enter(teamId, peer)
        own.set(request, reservation)
        // As the server does: nothing follows an accepted event but its answer.
        if (what === 'release') {
          reservation.release()
          own.delete(request)
          accepted.delete(request)
        } else if (what === 'pass') pass(1)
        else if (!accepted.has(request)) {
          reservation[what](bytes)
          if (what === 'accept') accepted.add(request)
        }
        expect(inFlight.bytes).toBeLessThanOrEqual(LIMITS.bytesInFlight)
        expect(inFlight.events).toBe(own.size)
      }
      for (const reservation of own.values()) reservation.release()
      expect(roomOf(inFlight)).toEqual(room)
    }),
    { numRuns: 200 },
  )
})

test('the limits are those of the documents, and end every answer within two seconds', () => {
  const text = readFileSync(new URL('../../../docs/security.md', import.meta.url), 'utf8').replace(
    /\s+/g,
    ' ',
  )
  expect(text).toContain('Such a body must arrive at 16 KiB/s after three seconds')
  expect(text).toContain('one that has been arriving for a second makes room for others')
  expect([DEFAULTS.bytesPerSecond, DEFAULTS.graceMs, DEFAULTS.staleMs]).toEqual([16_384, 3_000, 1_000])
  expect(DEFAULTS.storeMs).toBeLessThan(2_000)
  expect(DEFAULTS.statementMs).toBeLessThan(DEFAULTS.storeMs)
  expect(DEFAULTS.statementMs).toBeGreaterThan(1_000)
  // Balancers keep theirs for sixty seconds.
  expect(DEFAULTS.idleMs).toBeGreaterThan(60_000)
  expect(DEFAULTS.idleMs).toBeLessThan(120_000)
  expect([DEFAULTS.headersMs, DEFAULTS.requestMs, DEFAULTS.checkMs]).toEqual([5_000, 30_000, 1_000])
  // Several bodies of the largest size fit, also of strangers.
  expect(DEFAULTS.bytesInFlight * 0.75 * 0.45).toBeGreaterThan(4 * DEFAULTS.body)
  expect(DEFAULTS.connectionsOfPeer * 4).toBeLessThanOrEqual(DEFAULTS.connections)
})
