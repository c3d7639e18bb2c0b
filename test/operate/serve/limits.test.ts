/** Limits of the admin server's looks at the warehouse, and what closing it does to requests that wait. */
import { connect } from 'node:net'
import type { Kysely } from 'kysely'
import { expect, test } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import { type AdminOptions, openAdmin, openReadiness, waitOver } from '../../../src/operate/serve/admin.ts'
import type { BoundedQueries, BoundedQueryOptions } from '../../../src/warehouse/bounded-queries.ts'
import type { Warehouse } from '../../../src/warehouse/tables.ts'

const asked: BoundedQueryOptions[] = []
/** A warehouse that finds nothing. */
const bounded = {
  async run(options: BoundedQueryOptions, _work: (db: Kysely<Warehouse>) => Promise<unknown>) {
    asked.push(options)
    return null
  },
} as unknown as BoundedQueries
const { signal } = new AbortController()

test('a look of /wait may take a second and a half; the wait is as long as the request says, and ends with it', async () => {
  asked.length = 0
  let now = 0
  const signals = new Set<unknown>()
  const clock = {
    now: () => now * 1000,
    async sleep(milliseconds: number, given?: AbortSignal) {
      now += milliseconds
      signals.add(given)
    },
  }
  const since = '2026-01-05T02:00:00.000000Z' as Instant
  const waited = await waitOver(bounded, clock)({ stream: 'forms', since, timeout: 2, id: 'f' }, signal)
  expect(waited).toEqual({ reached: false, stream: 'forms', id: 'f', since, by: null, as_of: null })
  expect([now, [...signals]]).toEqual([2_000, [signal]])
  expect(asked).toEqual(Array(11).fill({ purpose: 'wait', milliseconds: 1_500 }))
})

test('a look of /readyz may take eight seconds; the answer waits for it a second and a half', async () => {
  asked.length = 0
  const sleeps: number[] = []
  const clock = {
    now: () => 0,
    sleep: (milliseconds: number) => {
      sleeps.push(milliseconds)
      return new Promise<void>(() => {})
    },
  }
  expect(await openReadiness(bounded, {}, clock)()).toEqual([])
  expect(asked).toEqual([{ purpose: 'readiness', milliseconds: 8_000 }])
  expect(sleeps).toEqual([1_500])
})

const open = (options: Partial<AdminOptions> = {}) =>
  openAdmin({
    ...{ host: '127.0.0.1', port: 0, registry: openMetrics().registry },
    ...{ reasons: async () => [], refresh: async () => {}, wait: () => new Promise(() => {}), ...options },
  })

test('closing ends requests that wait, and connections on which nobody asks', async () => {
  let isAsked = false
  const admin = await open({
    wait: () => {
      isAsked = true
      return new Promise(() => {})
    },
  })
  const waiting = fetch(`${admin.url}/wait?stream=forms&since=2026-01-05T02:00:00Z`).then(
    ({ status }) => status,
    () => 'ended',
  )
  const idle = connect(Number(new URL(admin.url).port), '127.0.0.1').on('error', () => {})
  const gone = new Promise<void>((resolve) => void idle.on('close', () => resolve()))
  await expect.poll(() => isAsked).toBe(true)
  await admin.close()
  expect(await waiting).toBe('ended')
  await gone
})
