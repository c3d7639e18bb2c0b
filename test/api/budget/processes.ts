/**
 * Several processes that share a budget, in simulated time: real limiters, a service with a limit, and a store in memory
 * whose statements take time and whose clock is another.
 *
 * Invariant: time passes only when every process waits, so the same seed gives the same run.
 */
import { setMaxListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import pino from 'pino'
import type { RateLimit } from '../../../src/api/budget/limit-model.ts'
import { openLimiter, type Limiter as Permits } from '../../../src/api/budget/limiter.ts'
import type { BudgetStore } from '../../../src/api/budget/sharing.ts'
import type { Clock } from '../../../src/core/clock.ts'
import { generator, heap, type Limiter } from './simulation.ts'

const SECOND = 1_000_000
const SILENT = pino({ level: 'silent' })

interface Sleeper {
  readonly at: number
  readonly wake: () => void
}

/** A clock whose sleepers are woken one after another, each when all that it caused is done. */
export function openSimulatedClock() {
  const sleepers = heap<Sleeper>((a, b) => a.at - b.at)
  let present = 1_000 * SECOND
  const clock: Clock = {
    now: () => present,
    sleep: (milliseconds, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason)
        const onAbort = () => reject(signal?.reason)
        signal?.addEventListener('abort', onAbort, { once: true })
        sleepers.push({
          at: present + Math.round(milliseconds * 1000),
          wake: () => {
            signal?.removeEventListener('abort', onAbort)
            resolve()
          },
        })
      }),
  }
  /** Lets time pass until `until` (microseconds). */
  async function run(until: number): Promise<void> {
    for (;;) {
      await setImmediate()
      const next = sleepers.pop()
      if (next === undefined) return
      if (next.at > until) {
        sleepers.push(next)
        present = until
        return
      }
      present = Math.max(present, next.at)
      next.wake()
    }
  }
  return { clock, run }
}

/** A store in memory: `latency` milliseconds a statement, and a clock that is `ahead` of that of the processes. */
export function openMemoryStore(clock: Clock, { latency = 1, ahead = 3_600 * SECOND } = {}) {
  let stored: unknown = null
  let version = 0
  const listeners = new Map<string, () => void>()
  const counts = { statements: 0, conflicts: 0 }
  let isAway = false
  return {
    counts,
    get division() {
      return stored as Record<string, unknown> | null
    },
    setAway: (away: boolean) => {
      isAway = away
    },
    of(name: string): BudgetStore {
      return {
        name,
        async update(change) {
          for (;;) {
            await clock.sleep(latency)
            if (isAway) throw new Error('away')
            const seen = version
            const now = clock.now() + ahead
            const read = stored === null ? null : structuredClone(stored)
            await clock.sleep(latency)
            const { division, notify } = change(read, now)
            await clock.sleep(latency)
            counts.statements += 2
            if (isAway) throw new Error('away')
            if (version !== seen) {
              counts.conflicts += 1
              continue
            }
            stored = structuredClone(division)
            version += 1
            if (notify) for (const [other, listener] of listeners) if (other !== name) void later(listener)
            return
          }
        },
        listen: (listener) => void listeners.set(name, listener),
        close: async () => void listeners.delete(name),
      }
    },
  }
  async function later(listener: () => void) {
    await clock.sleep(latency)
    listener()
  }
}

export interface ProcessOptions {
  readonly clock: Clock
  readonly store?: BudgetStore
  readonly service: Limiter
  readonly random: () => number
  readonly concurrency?: number
  /** Calls at a time; double the concurrency by default. */
  readonly calls?: number
  /** Round trip in milliseconds, and its variation as a share. */
  readonly latency?: number
  readonly jitter?: number
  readonly rateLimit?: RateLimit
  readonly header?: boolean
  /** Its requests are urgent ones. */
  readonly isUrgent?: boolean
}

export interface Process {
  readonly limiter: Permits
  readonly sent: { readonly at: number; readonly rejected: boolean }[]
  readonly failures: unknown[]
  /** Ends its calls; those in flight are answered. */
  stop(): void
  /** As kill -9: sends nothing from now on, and reports to nobody. */
  kill(): void
  close(): Promise<void>
}

/** A process that sends as many requests as it may. */
export function startProcess(options: ProcessOptions): Process {
  const { clock, service, random, concurrency = 4, latency = 5, jitter = 0.2, header = true } = options
  const dead = new AbortController()
  setMaxListeners(0, dead.signal)
  const { store: shared, rateLimit } = options
  const store = shared && {
    ...shared,
    update: (change: Parameters<BudgetStore['update']>[0]) =>
      dead.signal.aborted ? new Promise<never>(() => {}) : shared.update(change),
  }
  const limiter = openLimiter({ concurrency, clock, logger: SILENT, store, rateLimit })
  const sent: Process['sent'] = []
  const failures: unknown[] = []
  let isStopped = false
  const way = () => latency * 0.5 * (1 + jitter * (2 * random() - 1))

  async function call(): Promise<void> {
    const since = clock.now()
    for (let again = false; ; again = true) {
      const permit = await limiter.acquire([dead.signal], { since, again, urgent: options.isUrgent === true })
      if (dead.signal.aborted) return
      await clock.sleep(way())
      const refused = service.take(clock.now())
      sent.push({ at: clock.now(), rejected: refused !== null })
      await clock.sleep(way())
      if (dead.signal.aborted) return
      if (refused === null) return permit.accepted()
      const seconds = header ? Math.ceil(refused / SECOND) * 1000 : null
      if (!permit.throttled(seconds)) throw new Error('gave up')
    }
  }

  async function work(): Promise<void> {
    while (!isStopped) {
      await call().catch((error: unknown) => {
        if (!dead.signal.aborted) failures.push(error)
      })
    }
  }
  const { calls = concurrency * 2 } = options
  for (let each = 0; each < calls; each++) void work()
  return {
    limiter,
    sent,
    failures,
    stop: () => {
      isStopped = true
    },
    kill: () => {
      isStopped = true
      dead.abort(new Error('killed'))
    },
    close: () => limiter.close(),
  }
}

export { generator }
