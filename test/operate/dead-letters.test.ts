/** The list of dead letters: which of them, in which order, how many there are in all, and each with its own figures. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DeadLetterFilter, listDeadLetters, readDeadLetter } from '../../src/operate/dead-letters.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let session: Session
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status, seen,
      created_at, last_seen_at, last_run_id, settled_at)
    values (1, 'forms', 'a', '1', 'run:7 page:1', 'why a', 'waiting', 3, '2026-01-01', '2026-01-03', 41, null),
      (1, 'patients', 'b', '2', 'event:b', 'why b', 'waiting', 1, '2026-01-02', '2026-01-02', null, null),
      (2, 'forms', 'c', '3', 'event:c', 'why c', 'waiting', 1, '2026-01-02', '2026-01-02', 43, null),
      (1, 'forms', 'd', '4', 'event:d', 'why d', 'discarded', 2, '2026-01-02', '2026-01-05', 44, '2026-01-06'),
      (9, 'forms', null, '5', 'event:e', 'why e', 'waiting', 1, '2026-01-02', '2026-01-02', 45, null);
    insert into intake_raw.set_aside (dead_letter_id, body) values (1, 'body of a'), (2, 'body of b')`)
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

const listed = async (filter: Partial<DeadLetterFilter>) => {
  const { deadLetters, total } = await listDeadLetters(session.db, { limit: 99, ...filter })
  return [deadLetters.map(({ id }) => id), total]
}

test('they are listed newest first, by team, stream and status, up to a limit that does not change their number', async () => {
  expect(await listed({})).toEqual([[5, 4, 3, 2, 1], 5])
  expect(await listed({ limit: 2 })).toEqual([[5, 4], 5])
  expect(await listed({ team: 'north' })).toEqual([[4, 2, 1], 3])
  expect(await listed({ team: 'south', stream: 'forms' })).toEqual([[3], 1])
  expect(await listed({ team: 'south', stream: 'patients' })).toEqual([[], 0])
  expect(await listed({ stream: 'forms', status: 'waiting' })).toEqual([[5, 3, 1], 3])
  expect(await listed({ status: 'discarded' })).toEqual([[4], 1])
})

test('each is shown with its own figures and content; a team that was removed by its number', async () => {
  const a = {
    ...{ id: 1, team: 'north', stream: 'forms', record_id: 'a', origin: 'run:7 page:1', reason: 'why a' },
    ...{ status: 'waiting', seen: 3, last_run_id: 41, settled_at: null },
    ...{
      created_at: expect.stringMatching(/^2026-01-01/),
      last_seen_at: expect.stringMatching(/^2026-01-03/),
    },
  }
  const { deadLetters } = await listDeadLetters(session.db, { limit: 99 })
  expect(deadLetters.at(-1)).toEqual(a)
  expect(deadLetters[0]).toMatchObject({ team: '9', record_id: null })
  expect(deadLetters[1]).toMatchObject({ last_run_id: 44, settled_at: expect.stringMatching(/^2026-01-06/) })
  expect(deadLetters[3]).toMatchObject({ last_run_id: null })
  expect(await readDeadLetter(session.db, 1)).toEqual({ ...a, body: Buffer.from('body of a') })
  expect(await readDeadLetter(session.db, 4)).toMatchObject({ record_id: 'd', body: null })
  expect(await readDeadLetter(session.db, 99)).toBeNull()
})
