/** Locks are private: no reader can take one, whatever keys it knows; and one that cannot be taken names who has it. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { openErasures } from '../../src/load/erasures.ts'
import { lockStreams } from '../../src/load/runs.ts'
import { forms } from '../../src/streams/forms.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { isLocked, lockAlone, lockForSession, tryLock, unlock } from '../../src/warehouse/locks.ts'
import { warehouseError } from '../../src/warehouse/sqlstate.ts'
import { makeLogin } from '../analytics/logins.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { openTestSession } from '../support/sessions.ts'

let database: TestDatabase
let one: Session
let two: Session

beforeAll(async () => {
  database = await createTestDatabase()
  one = await openSession({ url: database.url, purpose: 'one' })
  two = await openSession({ url: database.url, purpose: 'two', lockTimeoutMs: 200 })
  await one.client.query(`insert into intake.teams (name) values ('clinic')`)
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

/** Every key that was ever fixed, and that of the migrator's library. */
const KNOWN = `
  select pg_advisory_lock(7204313, 0), pg_advisory_lock(7204314, hashtext('alerts')), pg_advisory_lock(7204315, 1),
    pg_advisory_lock(7204316, 1), pg_advisory_lock(7204311, hashtext('1/forms')), pg_advisory_lock(7204314001),
    pg_advisory_lock(7204310001), pg_advisory_lock(7204310002), pg_advisory_lock(3853314791062309107)`

describe('a reader that takes every key it knows', () => {
  it('stops neither loads, receiving, erasures, runs, days of the inbox, nor a migration', async () => {
    const analyst = await makeLogin(database.url, 'intake_analyst')
    const attacker = await openTestSession(analyst.url)
    try {
      await attacker.query(KNOWN)
      await one.client.query('begin')
      expect(await openErasures(one.db, 1)).toBeNull()
      await one.client.query('select intake_raw.hold_inbox_of(array[1::smallint])')
      await one.client.query('commit')
      await two.db.transaction().execute((db) => lockAlone(db, 'loading', '1'))
      await lockStreams(one, [forms], [{ teamId: 1, name: 'clinic' }])
      await unlock(one, 'stream', '1/forms')
      expect(await tryLock(one, 'alerts', 'alerts')).toBe(true)
      await unlock(one, 'alerts', 'alerts')
      await one.client.query('drop table if exists intake_raw.inbox_20300101')
      const days = await keepInboxDays(database.url, { days: 30, now: new Date('2030-01-01T00:00:00Z') })
      expect(days.created).toBeGreaterThan(0)
      expect((await migrate(database.url)).pending).toEqual([])
    } finally {
      await attacker.end()
    }
  })

  it('cannot find out the others', async () => {
    const clinical = await makeLogin(database.url, 'intake_analyst', 'intake_clinical')
    expect(
      await clinical.endings([
        'select * from intake_ops.lock_secret',
        `select intake_ops.lock_key(7204311, '1/forms')`,
        `select intake_ops.take_lock(7204315, '1', false)`,
        `select intake_ops.lock_holders(7204315, '1')`,
      ]),
    ).toEqual(['42501', '42501', '42501', '42501'])
  })
})

/** Whether anybody has the lock of north's forms, as the second session sees it. */
async function locked(): Promise<boolean> {
  const { rows } = await sql<{ is: boolean }>`select ${isLocked('stream', sql.lit('1/forms'))} as is`.execute(
    two.db,
  )
  return rows[0]!.is
}

describe('a lock', () => {
  it('of one kind is none of another, whatever their names', async () => {
    const kinds = [
      ...(['migration', 'stream', 'run', 'alerts', 'loading', 'receiving', 'team', 'wideViews'] as const),
      ...(['worker', 'claims', 'counts'] as const),
    ]
    await using own = await openSession({ url: database.url, purpose: 'own' })
    for (const kind of kinds) expect([kind, await tryLock(own, kind, 'same')]).toEqual([kind, true])
    const { rows } = await own.client.query(
      `select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
    )
    expect(rows).toHaveLength(kinds.length)
    for (const kind of kinds) expect([kind, await tryLock(two, kind, 'same')]).toEqual([kind, false])
    for (const kind of kinds) await unlock(own, kind, 'same')
    for (const kind of kinds) expect([kind, await tryLock(two, kind, 'same')]).toEqual([kind, true])
    for (const kind of kinds) await unlock(two, kind, 'same')
  })

  it('has the key that other versions give it, which may run at the same time', async () => {
    const kinds = {
      ...{ migration: 10, stream: 11, run: 12, alerts: 14, loading: 15, receiving: 16, team: 17 },
      ...{ wideViews: 18, worker: 19, claims: 20, counts: 21 },
    }
    const keys: Record<string, unknown> = {}
    for (const kind of Object.keys(kinds) as (keyof typeof kinds)[]) {
      await tryLock(one, kind, 'x')
      const { rows } = await one.client.query<{ kind: number }>(
        `select kind - 7204300 as kind from generate_series(7204300, 7204330) as kind join pg_locks lock
           on (lock.classid::bigint << 32 | lock.objid::bigint) = intake_ops.lock_key(kind, 'x')
         where lock.locktype = 'advisory' and lock.pid = pg_backend_pid()`,
      )
      keys[kind] = rows[0]?.kind
      await unlock(one, kind, 'x')
    }
    expect(keys).toEqual(kinds)
  })

  it('of a session that cannot be taken in time names the session that has it', async () => {
    await lockForSession(one.db, 'worker', 'w')
    const failure = await lockForSession(two.db, 'worker', 'w').catch(warehouseError)
    const { processID } = one.client as unknown as { processID: number }
    expect(failure).toMatchObject({
      code: 'table_locked',
      message: expect.stringMatching(new RegExp(`: session ${processID} \\(intake-sync one, login \\w+\\)$`)),
    })
    await unlock(one, 'worker', 'w')
    await lockForSession(two.db, 'worker', 'w')
    await unlock(two, 'worker', 'w')
    const { client } = two
    // Whatever else ends the waiting is reported as it is.
    await lockForSession(one.db, 'worker', 'w')
    await client.query('begin')
    await client.query(`set local lock_timeout = 0; set local statement_timeout = '200ms'`)
    await expect(lockForSession(two.db, 'worker', 'w')).rejects.toMatchObject({
      code: '57014',
      message: expect.stringContaining('statement timeout'),
    })
    await client.query('rollback')
    await unlock(one, 'worker', 'w')
  })

  it('of another database, with the same secret, or of two halves of a key is another lock', async () => {
    await using copy = await createTestDatabase()
    await using session = await openSession({ url: copy.url, purpose: 'copy' })
    const secretOf = async (at: Session) =>
      (await at.client.query('select * from intake_ops.lock_secret')).rows
    expect(await secretOf(session)).toEqual(await secretOf(one))
    expect(await tryLock(session, 'stream', '1/forms')).toBe(true)
    await one.client.query(`select pg_advisory_lock((key >> 32)::int, ((key << 32) >> 32)::int)
      from (select intake_ops.lock_key(7204311, '1/forms')) as own (key)`)
    expect(await locked()).toBe(false)
    expect(await tryLock(one, 'stream', '1/forms')).toBe(true)
    expect(await locked()).toBe(true)
    await one.client.query('select pg_advisory_unlock_all()')
    expect(await locked()).toBe(false)
  })

  it('that cannot be taken in time names the session that has it', async () => {
    await one.client.query('begin')
    await openErasures(one.db, 1)
    const failure = await two.db
      .transaction()
      .execute((db) => lockAlone(db, 'loading', '1'))
      .catch(warehouseError)
    const { processID } = one.client as unknown as { processID: number }
    expect(failure).toMatchObject({
      code: 'table_locked',
      message: expect.stringMatching(new RegExp(`: session ${processID} \\(intake-sync one, login \\w+\\)$`)),
    })
    await one.client.query('commit')
  })

  it('of a stream names the session of the other run', async () => {
    expect(await tryLock(one, 'stream', '1/forms')).toBe(true)
    const { processID } = one.client as unknown as { processID: number }
    await expect(lockStreams(two, [forms], [{ teamId: 1, name: 'clinic' }])).rejects.toMatchObject({
      code: 'held_by_another_run',
      hint: expect.stringContaining(`session ${processID} (intake-sync one, login`),
    })
    expect(await locked()).toBe(true)
    await unlock(one, 'stream', '1/forms')
    expect(await locked()).toBe(false)
  })

  it('is taken too by an erasure of an older version, which knows the old key only', async () => {
    await one.client.query('begin')
    await openErasures(one.db, 1)
    const old = two.client.query(
      `insert into intake_ops.erasures (hash, patient_hash, team_id) values ('\\x01', '\\x01', 1)`,
    )
    await expect(old).rejects.toMatchObject({ code: '55P03' })
    await one.client.query('commit')
    await two.client.query(
      `insert into intake_ops.erasures (hash, patient_hash, team_id) values ('\\x01', '\\x01', 1)`,
    )
  })
})
