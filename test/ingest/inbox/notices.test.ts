/** Notices for the drains of other processes: one covers all commits before it, and the last commit has one after it. */
import pg from 'pg'
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openNotices } from '../../../src/ingest/inbox/notices.ts'
import { createTestDatabase } from '../../support/database.ts'

test('a commit while a notice is sent has another one, and many at once share it', async () => {
  await using database = await createTestDatabase()
  const listener = new pg.Client({ connectionString: database.url, application_name: 'tests' })
  await listener.connect()
  let received = 0
  listener.on('notification', () => {
    received += 1
  })
  await listener.query('listen intake_inbox')
  const notices = openNotices({ url: database.url, clock: systemClock, statementMs: 60_000 })
  try {
    notices.send()
    for (let commits = 0; commits < 5; commits++) notices.send()
    await expect.poll(() => received).toBe(2)
    notices.send()
    await expect.poll(() => received).toBe(3)
  } finally {
    await notices.close()
    await listener.end()
  }
})
