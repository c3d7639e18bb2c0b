/** Two warehouses on one server of Postgres: workers of one are no workers of the other, and lose nothing because of it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimSlices, countWorkers, goesOn, openWorkSession } from '../../src/load/claims.ts'
import { releaseLost } from '../../src/load/lost-slices.ts'
import { insertRun } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let databases: TestDatabase[]
let here: Session
let there: Session

beforeAll(async () => {
  databases = [await createTestDatabase(), await createTestDatabase()]
  const sessions = databases.map(({ url }) => openSession({ url, purpose: 'test' }))
  ;[here, there] = (await Promise.all(sessions)) as [Session, Session]
})
afterAll(async () => {
  for (const each of [here, there]) await each.close()
  for (const database of databases) await database.drop()
})

const plan = async ({ db }: Session) => {
  const teamId = await teamIdOf(db, 'north')
  return await db.transaction().execute((own) => insertRun(own, {}, {}, [{ teamId, stream: 'forms' }]))
}

test('a worker of another warehouse keeps no run going here, and keeps its session when a worker of the same name here falls silent', async () => {
  const run = await plan(here)
  const other = await openWorkSession(databases[1]!.url, 'aaaaaaa1')
  expect([await countWorkers(here.db), await countWorkers(there.db)]).toEqual([0, 1])
  expect([await goesOn(here.db, run), await goesOn(there.db, await plan(there))]).toEqual([false, true])

  const own = await openWorkSession(databases[0]!.url, 'aaaaaaa1')
  const claiming = { teams: ['north'], streams: ['forms'], most: 1 }
  expect(await claimSlices(own.session.db, { owner: own.owner, ...claiming })).toHaveLength(1)
  await rowsOf(
    here,
    `update intake_ops.slices set heartbeat_at = now() - interval '15 s' where state = 'claimed'`,
  )
  const ended = new Promise((resolve) => own.session.client.once('end', resolve))
  expect(await releaseLost(here.db)).toBe(1)
  await ended
  expect(await rowsOf(other.session, 'select 1 as lives')).toEqual([{ lives: 1 }])
  await own.session.close()
  await other.session.close()
})
