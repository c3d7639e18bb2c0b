/** Processes that share a budget, in simulated time: what they send together, and what a 429, a kill and an outage do. */
import fc from 'fast-check'
import type { Logger } from 'pino'
import { describe, expect, test } from 'vitest'
import type { Division } from '../../../src/api/budget/division.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import { type BudgetStore, openSharing } from '../../../src/api/budget/sharing.ts'
import { openMemoryStore, openSimulatedClock, type Process, startProcess } from './processes.ts'
import { generator, type Limiter, slidingWindow } from './simulation.ts'

const SECOND = 1_000_000

function open(service: Limiter, seed = 1) {
  const { clock, run } = openSimulatedClock()
  const store = openMemoryStore(clock)
  const random = generator(seed)
  const processes: Process[] = []
  const begun = clock.now()
  const seconds = () => (clock.now() - begun) / SECOND
  return {
    ...{ clock, store, processes, begun, seconds },
    start(options: Partial<Parameters<typeof startProcess>[0]> = {}) {
      const process = startProcess({
        ...{ clock, service, random, store: store.of(`process ${processes.length}`) },
        ...options,
      })
      processes.push(process)
      return process
    },
    run: (forSeconds: number) => run(clock.now() + forSeconds * SECOND),
    /** Ends and leaves, as a command does. */
    async stop(leaving: readonly Process[] = processes) {
      for (const process of leaving) process.stop()
      await run(clock.now() + 3 * SECOND)
      const closed = Promise.all(leaving.map((process) => process.close()))
      await run(clock.now() + SECOND)
      await closed
    },
    log: () => processes.flatMap(({ sent }) => sent).toSorted((a, b) => a.at - b.at),
    division: () => store.division as unknown as Division,
  }
}

/** Accepted and rejected requests that arrived in this many seconds from `from` on. */
function counted(log: Process['sent'], from: number, seconds: number) {
  const within = log.filter(({ at }) => at >= from && at < from + seconds * SECOND)
  const rejected = within.filter((request) => request.rejected).length
  return { accepted: within.length - rejected, rejected }
}

test('a configured limit is kept by all together, however they come, go and are killed', async () => {
  const event = fc.record({
    after: fc.double({ min: 0.05, max: 4, noNaN: true }),
    what: fc.constantFrom('start', 'start', 'stop', 'kill'),
    calls: fc.integer({ min: 1, max: 12 }),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { minLength: 3, maxLength: 10 }),
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom(1, 3),
      async (events, requests, seconds) => {
        const scene = open({ take: () => null, permitted: () => Infinity })
        const rateLimit = { requests, seconds }
        const alive: Process[] = []
        for (const { after, what, calls } of events) {
          if (what === 'start') alive.push(scene.start({ rateLimit, calls, jitter: 0 }))
          else if (what === 'kill') alive.shift()?.kill()
          else await scene.stop(alive.splice(0, 1))
          await scene.run(after)
        }
        for (const process of alive) process.kill()
        const log = scene.log()
        for (const [at, later] of log.slice(requests).entries())
          expect(later.at - log[at]!.at).toBeGreaterThanOrEqual(seconds * SECOND)
      },
    ),
    { numRuns: 25, seed: 20260102 },
  )
})

test('of the limits that processes have configured, the strictest is kept by all, until its process ends', async () => {
  const scene = open({ take: () => null, permitted: () => Infinity })
  const limits = [
    { requests: 50, seconds: 1 },
    { requests: 600, seconds: 60 },
    { requests: 40, seconds: 1 },
  ]
  const [, strictest] = limits.map((rateLimit) => scene.start({ rateLimit, jitter: 0 }))
  // One learns, and keeps it too.
  scene.start({ jitter: 0 })
  await scene.run(10)
  // In the first second also one from each at once, and those of the one that learns until it hears of a limit.
  expect(counted(scene.log(), scene.begun, 1).accepted).toBeLessThanOrEqual(20)
  expect(counted(scene.log(), scene.begun, 10).accepted).toBeLessThanOrEqual(110)
  const from = scene.clock.now()
  await scene.run(20)
  const { accepted } = counted(scene.log(), from, 20)
  expect(accepted).toBeGreaterThanOrEqual(190)
  expect(accepted).toBeLessThanOrEqual(205)
  for (const { sent } of scene.processes) expect(counted(sent, from, 20).accepted).toBeGreaterThan(20)
  expect(scene.division()).toMatchObject({ isFixed: true, model: { count: 600, window: 60 * SECOND } })
  await scene.stop([strictest!])
  await scene.run(5)
  const then = scene.clock.now()
  await scene.run(10)
  const more = counted(scene.log(), then, 10).accepted
  expect(more).toBeGreaterThanOrEqual(0.95 * 400)
  expect(more).toBeLessThanOrEqual(405)
  for (const process of scene.processes) process.kill()
})

test.each([
  ['alone', [], 0],
  ['with three others that have the same', [600, 600, 600], 0],
  ['with three others that join later', [600, 600, 600], 3],
  ['after one with 20 in a second', [20], 0],
  ['when one with 20 in a second joins', [20], 3],
])('600 in a minute are spaced evenly from the first second on: %s', async (_who, others, after) => {
  const scene = open({ take: () => null, permitted: () => Infinity })
  const start = (requests: number) =>
    scene.start({ rateLimit: { requests, seconds: requests === 20 ? 1 : 60 }, jitter: 0 })
  if (after === 0) for (const requests of others) start(requests)
  start(600)
  for (const requests of after === 0 ? [] : others) {
    await scene.run(after)
    start(requests)
  }
  await scene.run(30)
  const seconds = Math.floor(scene.seconds())
  const log = scene.log()
  for (let second = 0; second < seconds; second += 0.25) {
    const { accepted } = counted(log, scene.begun + second * SECOND, 1)
    // Each may send one at once, and what a tenth of a second permits.
    expect(accepted).toBeLessThanOrEqual(12 + others.length * 2)
  }
  expect(log.length).toBeGreaterThanOrEqual(0.95 * 10 * seconds)
  for (const process of scene.processes) process.kill()
})

test.each([
  ['ends', async ({ stop }, process) => stop([process])],
  [
    'is killed',
    async ({ run }, process) => {
      process.kill()
      await run(4)
    },
  ],
] satisfies [string, (scene: ReturnType<typeof open>, process: Process) => Promise<void>][])(
  'when the last process with a configured limit %s, no limit is known, to the others and to the next run',
  async (_what, end) => {
    const scene = open({ take: () => null, permitted: () => Infinity })
    const strict = scene.start({ rateLimit: { requests: 30, seconds: 60 }, jitter: 0 })
    const other = scene.start({ jitter: 0 })
    await scene.run(20)
    expect(scene.log().length).toBeLessThan(20)
    await end(scene, strict)
    await scene.run(1)
    const { revision } = scene.division()
    const from = scene.clock.now()
    await scene.run(5)
    // As at its start: two in flight, of five milliseconds each, and four after the first hundred.
    expect(counted(other.sent, from, 5).accepted).toBeGreaterThan(0.9 * 5 * 400)
    expect(scene.division()).toMatchObject({ model: null, learned: null, isFixed: false, revision })
    await scene.stop([other])
    const next = scene.start({ jitter: 0 })
    await scene.run(5)
    expect(next.sent.length).toBeGreaterThan(0.9 * 5 * 400)
    expect(scene.division()).toMatchObject({ model: null, learned: null, isFixed: false })
  },
)

test.each([[undefined], [{ requests: 50, seconds: 1 }]])(
  'what a previous run had configured is forgotten by the next one, with %o',
  async (rateLimit) => {
    const scene = open({ take: () => null, permitted: () => Infinity })
    const strict = scene.start({ rateLimit: { requests: 30, seconds: 60 }, jitter: 0 })
    await scene.run(20)
    await scene.stop([strict])
    expect(scene.division()).toMatchObject({ model: { count: 30 }, learned: null })
    const next = scene.start({ ...(rateLimit && { rateLimit }), jitter: 0 })
    await scene.run(5)
    const { length } = next.sent
    expect(length).toBeGreaterThan(0.95 * 5 * (rateLimit?.requests ?? 400))
    if (rateLimit) expect(length).toBeLessThanOrEqual(5 * 50 + 5)
    expect(scene.division()).toMatchObject({ learned: null })
    next.kill()
  },
)

test.each([[{ requests: 20, seconds: 1 }], [undefined]])(
  'the strictest limit is kept after a write of a process with %o that its renewal was faster than',
  async (rateLimit) => {
    const scene = open({ take: () => null, permitted: () => Infinity })
    let isLate = false
    let renew = () => {}
    const [strictest, other] = ['strictest', 'other'].map((name) => scene.store.of(name)) as [
      BudgetStore,
      BudgetStore,
    ]
    // It is silent for longer than its lease, and renews it between what the other one reads and writes.
    const late: BudgetStore['update'] = async (change) => {
      if (isLate) await new Promise<void>((resolve) => (renew = resolve))
      await strictest.update(change)
    }
    const raced: BudgetStore['update'] = async (change) => {
      const { until = Infinity } = scene.division()?.holders.strictest ?? {}
      if (isLate && until < scene.clock.now() + 3_600 * SECOND) {
        isLate = false
        renew()
        await scene.clock.sleep(1)
      }
      await other.update(change)
    }
    scene.start({
      store: { ...strictest, update: late },
      rateLimit: { requests: 300, seconds: 60 },
      jitter: 0,
    })
    scene.start({ store: { ...other, update: raced }, ...(rateLimit && { rateLimit }), jitter: 0 })
    await scene.run(10)
    const { revision } = scene.division()
    const { conflicts } = scene.store.counts
    isLate = true
    await scene.run(5)
    expect(isLate).toBe(false)
    expect(scene.store.counts.conflicts).toBeGreaterThan(conflicts)
    expect(scene.division()).toMatchObject({ revision, isFixed: true, model: { count: 300 } })
    expect(counted(scene.log(), scene.clock.now() - 5 * SECOND, 5).accepted).toBeLessThanOrEqual(5 * 5 + 2)
    for (const process of scene.processes) process.kill()
  },
)

test('a service that refuses is learned anew after a configured limit', async () => {
  const scene = open(slidingWindow(20, 1), 7)
  const strict = scene.start({ rateLimit: { requests: 2, seconds: 1 } })
  for (let each = 0; each < 2; each++) scene.start()
  await scene.run(20)
  await scene.stop([strict])
  await scene.run(10)
  const from = scene.clock.now()
  await scene.run(30)
  const { accepted, rejected } = counted(scene.log(), from, 30)
  expect(accepted).toBeGreaterThan(0.95 * 600)
  expect(rejected).toBeLessThanOrEqual(6)
  expect(scene.division().learned!.count).toBeGreaterThanOrEqual(18)
  for (const process of scene.processes) process.kill()
})

describe('four processes', () => {
  test.each([
    [4, 90],
    [20, 40],
    [500, 6],
  ])(
    'find a limit of %i/s together; the next four begin with it, use it and waste nothing',
    async (rate, seconds) => {
      const scene = open(slidingWindow(rate, 1), 7)
      for (let each = 0; each < 4; each++) scene.start()
      await scene.run(seconds)
      const first = scene.processes.splice(0)
      await scene.stop(first)
      expect(scene.division().learned!.count).toBeGreaterThanOrEqual(rate * 0.9)
      expect(scene.division().holders).toEqual({})
      const again = scene.clock.now()
      for (let each = 0; each < 4; each++) scene.start()
      await scene.run(seconds)
      for (const { failures } of [...first, ...scene.processes]) expect(failures).toEqual([])
      const { accepted, rejected } = counted(scene.log(), again, seconds)
      expect(accepted / (rate * seconds)).toBeGreaterThan(0.95)
      // One 429 is what it costs to try whether the limit has risen.
      expect(rejected).toBeLessThanOrEqual(Math.max(2, 0.01 * accepted))
      const statements = scene.store.counts.statements / (2 * seconds)
      expect(statements).toBeLessThan(20)
    },
  )

  test('have their shares soon after the others have joined, and one that ends leaves its own to them', async () => {
    const scene = open(slidingWindow(40, 1), 3)
    scene.start()
    await scene.run(30)
    for (let each = 0; each < 3; each++) scene.start()
    await scene.run(4)
    const from = scene.clock.now()
    await scene.run(4)
    for (const { sent } of scene.processes) {
      const { accepted } = counted(sent, from, 4)
      expect(accepted).toBeGreaterThanOrEqual(0.15 * 160)
      expect(accepted).toBeLessThanOrEqual(0.35 * 160)
    }
    await scene.stop(scene.processes.slice(1))
    const alone = scene.clock.now()
    await scene.run(4)
    expect(counted(scene.processes[0]!.sent, alone, 4).accepted).toBeGreaterThanOrEqual(0.9 * 160)
  })

  test('wait when one of them is asked to', async () => {
    let isClosed = false
    const scene = open({ take: () => (isClosed ? 5 * SECOND : null), permitted: () => Infinity })
    for (let each = 0; each < 4; each++) scene.start()
    await scene.run(3)
    isClosed = true
    await scene.run(0.2)
    isClosed = false
    const refusedAt = scene.log().find(({ rejected }) => rejected)!.at
    const before = scene.log().length
    await scene.run(4)
    expect(scene.log().length).toBe(before)
    await scene.run(3)
    expect(scene.log().at(-1)!.at).toBeGreaterThan(refusedAt + 5 * SECOND)
    for (const { sent } of scene.processes) expect(sent.at(-1)!.at).toBeGreaterThan(refusedAt + 5 * SECOND)
  })

  test('go on when the one that explains a rejection is killed', async () => {
    const scene = open(slidingWindow(20, 1), 5)
    for (let each = 0; each < 4; each++) scene.start()
    for (let steps = 0; scene.store.division === null || scene.division().episode === null; steps++) {
      expect(steps).toBeLessThan(1_000)
      await scene.run(0.02)
    }
    const owner = Number(scene.division().episode!.owner.split(' ')[1])
    scene.processes[owner]!.kill()
    const others = scene.processes.filter((_, at) => at !== owner)
    // The lease of the killed one ends, and what it may have sent leaves the window.
    await scene.run(8)
    const from = scene.clock.now()
    await scene.run(10)
    const sent = others.flatMap((process) => process.sent)
    expect(counted(sent, from, 10).accepted).toBeGreaterThan(0.5 * 200)
    for (const { failures } of others) expect(failures).toEqual([])
  })
})

describe('a process', () => {
  test('is not paced by a service that refuses nothing, and asks the store a few times a second', async () => {
    const scene = open({ take: () => null, permitted: () => Infinity })
    scene.start({ latency: 10, jitter: 0 })
    await scene.run(5)
    // Four in flight, of ten milliseconds each; two for the first hundred.
    expect(scene.log().length).toBeGreaterThan(0.9 * 5 * 400)
    expect(scene.store.counts.statements).toBeLessThan(20)
  })

  test('asks the store nothing while it has nothing to send, and keeps nothing from the others', async () => {
    const scene = open(slidingWindow(10, 1))
    const first = scene.start()
    await scene.run(5)
    first.stop()
    await scene.run(5)
    expect(scene.division().holders).toEqual({})
    const { statements } = scene.store.counts
    await scene.run(60)
    expect(scene.store.counts.statements).toBe(statements)
  })

  test('goes on when the store is away, and shares again when it is back', async () => {
    const scene = open(slidingWindow(20, 1))
    const process = scene.start()
    await scene.run(5)
    scene.store.setAway(true)
    await scene.run(10)
    expect(counted(process.sent, scene.clock.now() - 5 * SECOND, 5).accepted).toBeGreaterThan(0.7 * 100)
    scene.store.setAway(false)
    await scene.run(5)
    expect(Object.keys(scene.division().holders)).toEqual(['process 0'])
    expect(process.failures).toEqual([])
  })

  test('goes on alone when the store was away from the beginning', async () => {
    const scene = open({ take: () => null, permitted: () => Infinity })
    scene.store.setAway(true)
    const process = scene.start({ rateLimit: { requests: 10, seconds: 1 } })
    await scene.run(5)
    expect(process.sent.length).toBeGreaterThanOrEqual(40)
    expect(process.failures).toEqual([])
  })

  test('begins at once although the last one was killed, but for what that one may still have used', async () => {
    const scene = open(slidingWindow(1000, 3600))
    const rateLimit = { requests: 1000, seconds: 3600 }
    const killed = scene.start({ rateLimit })
    await scene.run(60)
    killed.kill()
    await scene.run(5)
    const next = scene.start({ rateLimit })
    const from = scene.clock.now()
    await scene.run(60)
    expect(counted(next.sent, from, 60).accepted).toBeGreaterThanOrEqual(15)
  })

  test('with urgent requests has permits before others that read lists', async () => {
    const scene = open({ take: () => null, permitted: () => Infinity })
    const rateLimit = { requests: 8, seconds: 1 }
    scene.start({ rateLimit })
    await scene.run(5)
    const urgent = scene.start({ rateLimit, isUrgent: true })
    await scene.run(3)
    const from = scene.clock.now()
    await scene.run(4)
    const [lists, byId] = [scene.processes[0]!, urgent].map(({ sent }) => counted(sent, from, 4).accepted)
    expect(byId).toBeGreaterThan(2 * lists!)
    expect(lists).toBeGreaterThan(0)
  })
})

describe('the part of one process', () => {
  /** Of a process whose demand and answers are those of the test. */
  function part(over: Partial<BudgetStore> = {}, limit = new Limit(4)) {
    const { clock, run } = openSimulatedClock()
    const memory = openMemoryStore(clock)
    const own = memory.of('me')
    const calls = { update: 0, close: 0, changed: 0 }
    const warnings: unknown[] = []
    const demand = { waiting: 1, urgent: 0 }
    const sharing = openSharing({
      limit,
      clock,
      demand: () => demand,
      logger: { warn: (fields: unknown) => void warnings.push(fields) } as unknown as Logger,
      changed: () => {
        calls.changed += 1
      },
      store: {
        ...own,
        update: (change) => {
          calls.update += 1
          return (over.update ?? own.update)(change)
        },
        close: async () => {
          calls.close += 1
        },
      },
    })
    return {
      ...{ clock, memory, calls, warnings, demand, limit, sharing },
      run: (seconds: number) => run(clock.now() + seconds * SECOND),
      holders: () => Object.keys((memory.division as unknown as Division | null)?.holders ?? {}),
    }
  }

  test('may send once it has joined, and hears of it', async () => {
    const { sharing, calls, run, holders } = part()
    expect(sharing.mayGo()).toBe(false)
    await run(0.1)
    expect([sharing.mayGo(), calls.update, holders()]).toEqual([true, 1, ['me']])
    expect(calls.changed).toBeGreaterThan(0)
  })

  test('goes on after two seconds without an answer, and warns once as long as there is none', async () => {
    const away = part({ update: () => new Promise(() => {}) })
    away.sharing.mayGo()
    await away.run(1.9)
    expect([away.sharing.mayGo(), away.warnings, away.calls.changed]).toEqual([false, [], 0])
    await away.run(0.2)
    expect([away.sharing.mayGo(), away.warnings]).toEqual([true, [{ why: 'no answer' }]])
    expect([away.calls.changed, away.limit.share]).toEqual([1, null])
  })

  test('warns once while the store is away, and again the next time', async () => {
    const { sharing, memory, warnings, run } = part()
    sharing.mayGo()
    await run(1)
    for (const times of [1, 2]) {
      memory.setAway(true)
      await run(5)
      expect(warnings).toEqual(Array(times).fill({ why: 'Error' }))
      expect(sharing.mayGo()).toBe(true)
      memory.setAway(false)
      await run(5)
      expect(sharing.mayGo()).toBe(true)
    }
  })

  test('reports a rejection at once and once, and sends nothing until it is explained', async () => {
    const { sharing, limit, clock, calls, run, memory } = part()
    sharing.mayGo()
    await run(0.5)
    const before = calls.update
    sharing.noteChange()
    await run(0.2)
    expect([calls.update, limit.isBlocked]).toEqual([before, false])
    limit.rejected(limit.sent(clock.now()), clock.now(), 5 * SECOND)
    sharing.noteChange()
    expect(limit.isBlocked).toBe(true)
    sharing.noteChange()
    await run(0.1)
    sharing.noteChange()
    await run(0.1)
    expect(calls.update).toBe(before + 1)
    expect((memory.division as unknown as Division).episode).toMatchObject({ owner: 'me' })
  })

  test('reports what it learned from a rejection as soon as a request was accepted again', async () => {
    const { sharing, limit, clock, calls, run, memory } = part()
    const division = () => memory.division as unknown as Division
    sharing.mayGo()
    await run(0.5)
    for (let each = 0; each < 5; each++) limit.accepted(limit.sent(clock.now()), clock.now())
    limit.rejected(limit.sent(clock.now()), clock.now(), null)
    sharing.noteChange()
    await run(2)
    expect([limit.isBlocked, division().episode?.owner]).toEqual([false, 'me'])
    const ticket = limit.sent(clock.now())
    await run(0.1)
    const before = calls.update
    limit.accepted(ticket, clock.now())
    sharing.noteChange()
    await run(0.06)
    expect([limit.episode, calls.update, division().episode]).toEqual([null, before + 1, null])
    expect(division().model).toMatchObject({ count: limit.known!.count })
  })

  test('stays while a request is in flight, however long, and leaves a second after the last', async () => {
    const { sharing, limit, clock, demand, run, holders } = part()
    sharing.mayGo()
    await run(0.5)
    const ticket = limit.sent(clock.now())
    demand.waiting = 0
    await run(30)
    expect(holders()).toEqual(['me'])
    limit.accepted(ticket, clock.now())
    await run(3)
    expect(holders()).toEqual([])
  })

  test('ends once: leaves, closes its store, and asks it nothing more', async () => {
    const { sharing, calls, run, holders } = part()
    sharing.mayGo()
    await run(0.5)
    const before = calls.update
    const closed = Promise.all([sharing.close(), sharing.close()])
    await run(0.1)
    await closed
    await sharing.close()
    expect([holders(), calls.update, calls.close]).toEqual([[], before + 1, 1])
    sharing.noteChange()
    sharing.mayGo()
    await run(10)
    expect([calls.update, calls.close]).toEqual([before + 1, 1])
  })

  test('ends without asking a store that is away, or that it has not joined', async () => {
    const idle = part()
    await idle.sharing.close()
    expect(idle.calls).toMatchObject({ update: 0, close: 1 })
    const away = part()
    away.sharing.mayGo()
    await away.run(0.5)
    away.memory.setAway(true)
    await away.run(3)
    const before = away.calls.update
    const closed = away.sharing.close()
    await away.run(1)
    await closed
    expect(away.calls).toMatchObject({ update: before, close: 1 })
  })
})
