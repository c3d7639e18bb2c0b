/** The session that listens for events of other processes: renewed when it breaks, and the drain looks for events then. */
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openListener, openSessions } from '../../../src/ingest/drain/sessions.ts'
import { createTestDatabase } from '../../support/database.ts'
import { ask } from '../../support/sessions.ts'
import { silent } from './scene.ts'

test('a listener is woken when it begins, at each notice, and when a broken session is back, a second later', async () => {
  await using database = await createTestDatabase()
  let notices = 0
  const pauses: number[] = []
  const listener = openListener({
    ...{ url: database.url, channel: 'intake_inbox', logger: silent },
    clock: {
      ...systemClock,
      sleep(milliseconds, signal) {
        pauses.push(milliseconds)
        return systemClock.sleep(1, signal)
      },
    },
    onNotice: () => (notices += 1),
  })
  await expect.poll(() => notices).toBe(1)
  await ask(database.url, 'notify intake_inbox; notify another')
  await expect.poll(() => notices).toBe(2)
  await ask(
    database.url,
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where datname = current_database() and application_name = 'intake-sync listen intake_inbox'`,
  )
  await expect.poll(() => notices).toBe(3)
  expect(pauses).toEqual([1_000])
  await listener.close()
  await ask(database.url, 'notify intake_inbox')
  expect(notices).toBe(3)
})

test('a listener that cannot listen leaves no connection open each time it tries', async () => {
  await using database = await createTestDatabase()
  let tries = 0
  const tried = () => {
    tries += 1
  }
  // A name that Postgres refuses.
  const listener = openListener({
    ...{ url: database.url, channel: '', onNotice: () => {} },
    logger: { ...silent, warn: () => tried() } as unknown as typeof silent,
    clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(1, signal) },
  })
  await expect.poll(() => tries).toBeGreaterThan(2)
  await listener.close()
  // A connection that is left open fails the end of the test.
})

test('a connection is used again after work that succeeded, and never after work that failed', async () => {
  await using database = await createTestDatabase()
  const sessions = openSessions(database.url, systemClock)
  const first = await sessions.take()
  const other = await sessions.take()
  expect(other).not.toBe(first)
  sessions.release(first)
  expect(await sessions.take()).toBe(first)
  await sessions.discard(first)
  const next = await sessions.take()
  expect([first, other].includes(next)).toBe(false)
  await sessions.bounded(next, next.client.query('select'))
  // Also those that are taken end with it.
  await sessions.close()
})
