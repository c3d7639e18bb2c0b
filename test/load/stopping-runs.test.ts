/** How a run learns that it was canceled, and what `runs cancel` asks the warehouse, step by step. */
import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { cancelRun, openCancellation, whyStopped } from '../../src/load/cancel-run.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { type Reply, type Script, scripted } from '../support/scripted.ts'

const warehouse = vi.hoisted(() => ({
  script: (() => []) as unknown as Script,
  opened: [] as object[],
  closed: 0,
  /** The looks of runs that are notified: each ends as the test says. */
  looks: [] as { options: object; work: (db: unknown) => Promise<void>; end(error?: Error): void }[],
}))

vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<object>()),
  openSession: async (options: object) => {
    warehouse.opened.push(options)
    const close = async () => {
      warehouse.closed += 1
    }
    return {
      db: scripted((...asked) => warehouse.script(...asked)),
      close,
      [Symbol.asyncDispose]: close,
    }
  },
}))

vi.mock('../../src/warehouse/bounded-queries.ts', async (original) => ({
  ...(await original<object>()),
  boundedQuery: (options: object, work: (db: unknown) => Promise<void>) =>
    new Promise<void>((resolve, reject) => {
      const end = (error?: Error) => (error === undefined ? resolve() : reject(error))
      warehouse.looks.push({ options, work, end })
    }),
}))

beforeEach(() => {
  Object.assign(warehouse, { script: () => [], opened: [], closed: 0, looks: [] })
})

describe('a run that is notified', () => {
  afterEach(() => void vi.useRealTimers())

  const client = new EventEmitter()
  let canceledBy: string | null = null
  const db = scripted(() => [{ login: canceledBy }])
  const open = async () => {
    vi.useFakeTimers()
    canceledBy = null
    Object.assign(client, { query: async () => {} })
    const session = { client, db } as unknown as Session
    const { signal } = new AbortController()
    return await openCancellation(session, { url: 'postgres://w', runId: '7', signal })
  }
  const notify = () => client.emit('notification', { channel: 'intake_canceled_runs', payload: '7' })
  const last = () => warehouse.looks.at(-1)!
  const turn = () => vi.advanceTimersByTimeAsync(0)

  test('looks on a connection of its own, which is given up after five seconds', async () => {
    using _ = await open()
    notify()
    expect(warehouse.looks.map(({ options }) => options)).toEqual([
      { url: 'postgres://w', purpose: 'canceled run', milliseconds: 5_000 },
    ])
  })

  test('many times at once looks once at a time, and once more for a notice that arrived meanwhile', async () => {
    using cancellation = await open()
    for (let times = 0; times < 5; times++) notify()
    expect(warehouse.looks).toHaveLength(1)
    // The look has read the run before it was canceled.
    await last().work(db)
    canceledBy = 'ann'
    notify()
    last().end()
    await turn()
    expect([warehouse.looks.length, cancellation.signal.aborted]).toEqual([2, false])
    await last().work(db)
    last().end()
    await turn()
    expect(cancellation.signal.aborted).toBe(true)
    expect(whyStopped(cancellation.signal)).toContain('canceled by database user ann')
    notify()
    await turn()
    expect(warehouse.looks).toHaveLength(2)
  })

  test('looks again a second after the warehouse could not answer, until it can', async () => {
    using cancellation = await open()
    const set = vi.spyOn(globalThis, 'setTimeout')
    notify()
    for (const looks of [1, 2, 3]) {
      last().end(new Error('the warehouse is away'))
      await vi.advanceTimersByTimeAsync(999)
      expect(warehouse.looks).toHaveLength(looks)
      await vi.advanceTimersByTimeAsync(1)
      expect(warehouse.looks).toHaveLength(looks + 1)
    }
    // It does not keep the process alive.
    const timers = set.mock.results.map(({ value }) => value as NodeJS.Timeout)
    expect(timers.map((timer) => timer.hasRef())).toEqual([false, false, false])
    canceledBy = 'ann'
    await last().work(db)
    last().end()
    await vi.advanceTimersByTimeAsync(5_000)
    expect([cancellation.signal.aborted, warehouse.looks.length, vi.getTimerCount()]).toEqual([true, 4, 0])
  })

  test('and has ended looks no more: neither for a notice, nor because its last look failed, before or after', async () => {
    const early = await open()
    notify()
    last().end(new Error('the warehouse is away'))
    await turn()
    expect(vi.getTimerCount()).toBe(1)
    early[Symbol.dispose]()
    expect(vi.getTimerCount()).toBe(0)
    const late = await open()
    notify()
    late[Symbol.dispose]()
    notify()
    last().end(new Error('the warehouse is away'))
    await vi.advanceTimersByTimeAsync(5_000)
    expect([warehouse.looks.length, late.signal.aborted]).toEqual([2, false])
  })
})

describe('runs cancel', () => {
  /** A run that nobody has planned; what it is, at each look. */
  function run(statuses: readonly string[], { isCanceled = true, isLocked = false } = {}) {
    const left = [...statuses]
    const asked: string[] = []
    const replies: readonly (readonly [RegExp, string, () => Reply])[] = [
      [
        /^update .* set canceled_by = coalesce\(canceled_by, session_user\) .* and status = 'running'$/,
        'cancel',
        () => (isCanceled ? 1 : 0),
      ],
      [/pg_notify/, 'notify', () => []],
      [/^select status/, 'status', () => left.splice(0, 1).map((status) => ({ status }))],
      [/from intake_ops.slices/, 'slices', () => []],
      [/pg_try_advisory_lock/, 'lock', () => [{ locked: !isLocked }]],
      [/pg_advisory_unlock/, 'unlock', () => []],
    ]
    warehouse.script = (statement) => {
      const [, name, reply] = replies.find(([pattern]) => pattern.test(statement))!
      asked.push(name)
      return reply()
    }
    let micros = 1_000_000
    const slept: number[] = []
    const clock = {
      now: () => micros,
      sleep: async (milliseconds: number) => {
        slept.push(milliseconds)
        micros += milliseconds * 1_000
      },
    }
    const cancel = (forMs: number) => cancelRun({ url: 'postgres://w', clock, forMs }, 7)
    return { asked, slept, cancel }
  }

  test('stores who cancels before it notifies the run, and looks every tenth of a second, as long as it may', async () => {
    const running = run(Array(9).fill('running'), { isLocked: true })
    expect(await running.cancel(250)).toEqual({ status: 'running', canceled: true })
    const look = ['status', 'slices', 'lock', 'slices']
    expect(running.asked).toEqual(['cancel', 'notify', ...look, ...look, ...look, ...look])
    expect(running.slept).toEqual([100, 100, 100])
    expect([warehouse.opened, warehouse.closed]).toEqual([
      [{ url: 'postgres://w', purpose: 'cancel a run' }],
      1,
    ])
  })

  test('says how a run has ended that ended while it looked, and leaves no lock', async () => {
    for (const [again, status] of [
      ['succeeded', 'succeeded'],
      ['running', 'interrupted'],
    ] as const) {
      const ending = run(['running', again])
      expect(await ending.cancel(10_000)).toEqual({ status, canceled: true })
      expect(ending.asked.slice(2)).toEqual(['status', 'slices', 'lock', 'unlock', 'status'])
      expect(ending.slept).toEqual([])
    }
  })

  test('of a run that had ended locks nothing, and says that it canceled nothing', async () => {
    const ended = run(['failed'], { isCanceled: false })
    expect(await ended.cancel(10_000)).toEqual({ status: 'failed', canceled: false })
    expect(ended.asked).toEqual(['cancel', 'notify', 'status'])
  })

  test('of a run that does not exist names it, and closes its session', async () => {
    const none = run([], { isCanceled: false })
    await expect(none.cancel(10_000)).rejects.toMatchObject({
      ...{ message: 'there is no run 7', code: 'unknown_run', verdict: 'stop' },
      hint: 'intake-sync runs lists the newest ones',
    })
    expect(warehouse.closed).toBe(1)
  })
})
