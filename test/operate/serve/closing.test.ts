/** How `serve` ends: its parts in reverse order, whatever one of them does, and soon. */
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import { openLimiter } from '../../../src/api/budget/limiter.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openWorker } from '../../../src/extract/work.ts'
import { openDrain } from '../../../src/ingest/drain/drain.ts'
import { openIngester } from '../../../src/ingest/http/server.ts'
import { openHousekeeping } from '../../../src/operate/serve/parts.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { query } from '../../e2e/support/scene.ts'
import { createTestDatabase } from '../../support/database.ts'
import { freePort } from '../../support/free-port.ts'

/** Seconds of `node:timers/promises` pass in milliseconds here, and are noted. */
const pauses = vi.hoisted<number[]>(() => [])
/** The signals of pauses that are longer than a second. */
const signals = vi.hoisted<(AbortSignal | undefined)[]>(() => [])
vi.mock('node:timers/promises', async (original) => {
  const real = await original<typeof import('node:timers/promises')>()
  const setTimeout: typeof real.setTimeout = (milliseconds = 0, ...more) => {
    pauses.push(milliseconds)
    if (milliseconds > 1_000) signals.push(more[1]?.signal)
    return real.setTimeout(milliseconds / 50, ...more)
  }
  return { ...real, setTimeout }
})
vi.mock('../../../src/api/budget/limiter.ts', async (original) => ({
  ...(await original()),
  openLimiter: vi.fn(),
}))
vi.mock('../../../src/extract/work.ts', async (original) => ({ ...(await original()), openWorker: vi.fn() }))
vi.mock('../../../src/ingest/drain/drain.ts', () => ({ openDrain: vi.fn() }))
vi.mock('../../../src/extract/conflicts/refetcher.ts', () => ({
  openRefetcher: () => ({ wake: () => {}, [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/ingest/http/server.ts', () => ({ openIngester: vi.fn() }))

const logger = pino({ level: 'silent' })
const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
const team = { name: 'north', apiVersion: 'v2.1', concurrency: 3, ...access }

/** The parts in the order in which they were closed. */
let closed: string[]
beforeEach(() => {
  closed = []
  const part = (name: string, error?: Error) => ({
    ...{ url: 'http://x', inFlight: { events: 0, bytes: 0 }, wake: () => {}, trouble: () => null },
    close: async () => void closed.push(name),
    async [Symbol.asyncDispose]() {
      closed.push(name)
      if (error !== undefined) throw error
    },
  })
  vi.mocked(openLimiter).mockReturnValue(part('limiter') as never)
  vi.mocked(openDrain).mockReturnValue(part('drain', new Error('of the drain')) as never)
  vi.mocked(openIngester).mockResolvedValue(part('ingester') as never)
  vi.mocked(openWorker).mockReturnValue(part('worker', new Error('of the worker')) as never)
})

const serve = (url: string, port = 0) =>
  openServe({
    ...{ url, clock: systemClock, random: Math.random, logger, version: '9.9.9', inboxDays: 11 },
    ...{ ingestTeams: [{ name: 'north', webhookSecrets: [] }], teams: [team], drain: true, cron: null },
    ...{ ingest: { host: '127.0.0.1', port: 1 }, work: {}, encryptionKey: null, backfill: async () => {} },
    admin: { host: '127.0.0.1', port },
  })
const sessions = `select from pg_stat_activity
  where datname = current_database() and application_name like 'intake-sync %'`

test('a part that cannot be closed keeps no other one open; the first failure is the one that is reported', async () => {
  await using database = await createTestDatabase()
  const serving = await serve(database.url)
  await expect(serving.close()).rejects.toThrow('of the worker')
  expect(closed).toEqual(['worker', 'ingester', 'drain', 'limiter'])
  await expect(fetch(serving.admin)).rejects.toThrow()
  await expect.poll(() => query(database.url, sessions)).toEqual([])
})

test.each([
  ['EADDRINUSE', 'INTAKE_WEBHOOK_PORT', 'port 1 is in use'],
  ['EACCES', 'INTAKE_WEBHOOK_PORT', 'port 1 may not be opened'],
  ['EADDRNOTAVAIL', 'INTAKE_WEBHOOK_HOST', 'INTAKE_WEBHOOK_HOST is not an address of this machine'],
])(
  'where webhooks cannot be received (%s), %s is named, and what was opened is closed',
  async (code, setting, message) => {
    await using database = await createTestDatabase()
    vi.mocked(openDrain).mockReturnValue({
      [Symbol.asyncDispose]: async () => void closed.push('drain'),
    } as never)
    vi.mocked(openIngester).mockRejectedValue(Object.assign(new Error('of the system'), { code }))
    const admin = await freePort()
    await expect(serve(database.url, admin)).rejects.toMatchObject({
      message,
      variable: setting,
      code: 'port_unusable',
    })
    expect(closed).toEqual(['drain', 'limiter'])
    await expect(fetch(`http://127.0.0.1:${admin}`)).rejects.toThrow()
    await expect.poll(() => query(database.url, sessions)).toEqual([])
  },
)

test('housekeeping that is closed ends its round first, but not one that takes longer than some seconds', async () => {
  await using database = await createTestDatabase()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    await using holder = await openSession({ url: database.url, purpose: 'holder' })
    for (const isReleased of [true, false]) {
      const housekeeping = await openHousekeeping({ url: database.url, inboxDays: 30, logger })
      await holder.client.query('begin; lock table intake_ops.events_received in access exclusive mode')
      vi.advanceTimersByTime(3_600_000)
      await expect.poll(() => query(database.url, `${sessions} and wait_event_type = 'Lock'`)).toHaveLength(1)
      pauses.length = 0
      signals.length = 0
      const closing = housekeeping[Symbol.asyncDispose]()
      if (isReleased) await holder.client.query('commit')
      await closing
      expect(pauses.filter((pause) => pause > 1_000)).toEqual([expect.toSatisfy((pause) => pause <= 10_000)])
      // Nothing is left for which the process would wait.
      expect(signals.map((signal) => signal?.aborted)).toEqual([true])
      const left = await query(database.url, `${sessions} and application_name <> 'intake-sync holder'`)
      expect(left.length === 0).toBe(isReleased)
    }
    await holder.client.query('commit')
    await expect.poll(() => query(database.url, sessions)).toHaveLength(1)
  } finally {
    vi.useRealTimers()
  }
})
