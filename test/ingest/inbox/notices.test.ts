/** Notices for the drains of other processes: one covers all commits before it, and the last commit has one after it. */
import pg from 'pg'
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openNotices } from '../../../src/ingest/inbox/notices.ts'
import { createTestDatabase } from '../../support/database.ts'
import { ask } from '../../support/sessions.ts'

/** Counts the notices that a drain would receive. */
async function openListener(url: string) {
  const client = new pg.Client({ connectionString: url, application_name: 'tests' })
  await client.connect()
  let received = 0
  client.on('notification', () => {
    received += 1
  })
  await client.query('listen intake_inbox')
  return {
    get received() {
      return received
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}

test('a commit while a notice is sent has another one, and many at once share it', async () => {
  await using database = await createTestDatabase()
  await using listener = await openListener(database.url)
  const notices = openNotices({ url: database.url, clock: systemClock, statementMs: 60_000 })
  try {
    notices.send()
    for (let commits = 0; commits < 5; commits++) notices.send()
    await expect.poll(() => listener.received).toBe(2)
    notices.send()
    await expect.poll(() => listener.received).toBe(3)
  } finally {
    await notices.close()
  }
})

test('a connection that broke is replaced, after a second, and later commits have their notices', async () => {
  await using database = await createTestDatabase()
  await using listener = await openListener(database.url)
  const pauses: number[] = []
  const clock = {
    ...systemClock,
    sleep: (milliseconds: number, signal?: AbortSignal) => {
      if (milliseconds < 60_000) pauses.push(milliseconds)
      return systemClock.sleep(milliseconds < 60_000 ? 1 : milliseconds, signal)
    },
  }
  const notices = openNotices({ url: database.url, clock, statementMs: 60_000 })
  try {
    notices.send()
    await expect.poll(() => listener.received).toBe(1)
    await ask(
      database.url,
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity
       where datname = current_database() and application_name = 'intake-sync ingest notices'`,
    )
    await expect
      .poll(() => {
        notices.send()
        return listener.received
      })
      .toBeGreaterThan(1)
    expect(pauses.filter((pause) => pause !== 20)).toEqual([1_000])
  } finally {
    await notices.close()
  }
})

test('a connection that does not answer in time is closed, and later commits have their notices by another', async () => {
  await using database = await createTestDatabase()
  await using listener = await openListener(database.url)
  let slow = true
  const clock = {
    ...systemClock,
    sleep: (milliseconds: number, signal?: AbortSignal) => {
      const isLate = milliseconds === 60_000 && slow
      if (isLate) slow = false
      return isLate ? Promise.resolve() : systemClock.sleep(milliseconds < 60_000 ? 1 : milliseconds, signal)
    },
  }
  const notices = openNotices({ url: database.url, clock, statementMs: 60_000 })
  try {
    notices.send()
    await expect.poll(() => slow).toBe(false)
    await expect
      .poll(() => {
        notices.send()
        return listener.received
      })
      .toBeGreaterThan(1)
    const sessions = await ask(
      database.url,
      `select count(*)::int as open from pg_stat_activity
       where datname = current_database() and application_name = 'intake-sync ingest notices'`,
    )
    expect(sessions).toEqual([{ open: 1 }])
  } finally {
    await notices.close()
  }
})
