/** A server that hangs during a drain: it is reported, the batch is abandoned and retried; closing does not wait for it. */
import { beforeEach, expect, it, vi } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { type Drain, openDrain } from '../../../src/ingest/drain/drain.ts'
import { openSessions } from '../../../src/ingest/drain/sessions.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openScene, patientEvent, type Scene, silent, unwatched } from './scene.ts'

/** A minute takes two seconds. */
const SPEED = 30
const begun = systemClock.now()
const quick: Clock = {
  now: () => begun + (systemClock.now() - begun) * SPEED,
  sleep: (milliseconds, signal) => systemClock.sleep(milliseconds / SPEED, signal),
}

let scene: Scene
beforeEach(async () => {
  scene = await openScene()
  return () => scene[Symbol.asyncDispose]()
})

function open(): Drain {
  const teams = [{ name: 'default', teamId: scene.teamId }]
  return openDrain({ url: scene.url, teams, clock: quick, logger: silent, watch: unwatched })
}

/** Locks a table so that no statement on it ends, until it is released. */
async function hold(table: string): Promise<() => Promise<void>> {
  const session = await openSession({ url: scene.url, purpose: 'hold' })
  await session.client.query('begin')
  await session.client.query(`lock table ${table} in access exclusive mode`)
  return () => session.close()
}

const waited = (table: string) =>
  vi.waitFor(
    async () => {
      const [row] = await scene.rows<{ waits: boolean }>(
        `select exists (select from pg_locks where relation = '${table}'::regclass and not granted) as waits`,
      )
      expect(row!.waits).toBe(true)
    },
    { timeout: 60_000 },
  )

it.each([
  ['the inbox', 'intake_raw.inbox'],
  ['the records', 'intake_raw.records'],
])(
  'a batch that waits for %s too long is reported, abandoned, and loaded once that answers',
  async (_, table) => {
    await scene.store([patientEvent('p-1', 1)])
    const release = await hold(table)
    await using drain = open()
    await vi.waitFor(() => expect(drain.trouble()).toMatch(/^a batch of events is under way for \d+ s$/), {
      timeout: 60_000,
    })
    await vi.waitFor(() => expect(drain.trouble()).toBe('the warehouse did not answer in time'), {
      timeout: 60_000,
    })
    await release()
    await drain.idle()
    expect(drain.trouble()).toBeNull()
    expect(await scene.rows('select id from intake.patients')).toEqual([{ id: 'p-1' }])
  },
)

it.each([
  ['the inbox', 'intake_raw.inbox'],
  ['the records', 'intake_raw.records'],
])('closing ends while a batch waits for %s, and leaves no connection open', async (_, table) => {
  await scene.store([patientEvent('p-1', 1)])
  const release = await hold(table)
  const drain = open()
  await waited(table)
  await drain.close()
  await release()
  await vi.waitFor(
    async () => {
      const open = await scene.rows(
        `select pid from pg_stat_activity where datname = current_database() and application_name like '%drain'`,
      )
      expect(open).toEqual([])
    },
    { timeout: 60_000 },
  )
  await scene.drain()
  expect(await scene.rows('select id from intake.patients')).toEqual([{ id: 'p-1' }])
})

it('events in the batch of a stopped process are drained by another, and the process changes nothing when it resumes', async () => {
  await scene.store([patientEvent('p-1', 1)])
  const stopped = openSessions(scene.url, systemClock, 200)
  const session = await stopped.take()
  await session.client.query('begin')
  await session.client.query('select from intake_raw.inbox for update')
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 1 })
  await expect(session.client.query('commit')).rejects.toThrow()
  await stopped.close()
})

it('a batch whose process sends no statement for 14 seconds ends', async () => {
  const sessions = openSessions(scene.url, systemClock)
  const { client } = await sessions.take()
  const { rows } = await client.query('show idle_in_transaction_session_timeout')
  expect(rows).toEqual([{ idle_in_transaction_session_timeout: '14s' }])
  await client.end()
})
