/** The locks of streams: all requested ones, or an error that names the other runs, and no lock else. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { lockStreams, unlockStreams } from '../../src/load/runs.ts'
import { forms } from '../../src/streams/forms.ts'
import { packets } from '../../src/streams/packets.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { tryLock } from '../../src/warehouse/locks.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

const CLINIC = { teamId: 1, name: 'clinic' }
const HOSPITAL = { teamId: 2, name: 'hospital' }
/** A team whose number begins with another team's. */
const ELEVENTH = { teamId: 11, name: 'eleventh' }

let database: TestDatabase
let one: Session
let two: Session

beforeAll(async () => {
  database = await createTestDatabase()
})

afterAll(() => database.drop())

beforeEach(async () => {
  one = await openSession({ url: database.url, purpose: 'one' })
  two = await openSession({ url: database.url, purpose: 'two' })
  return async () => {
    await one.close()
    await two.close()
  }
})

const locks = async (session: Session) =>
  (
    await rowsOf<{ locks: number }>(
      session,
      `select count(*)::int as locks from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
    )
  )[0]!.locks

test('every stream of every given team is locked, each once', async () => {
  await lockStreams(one, [patients, forms, packets], [CLINIC, HOSPITAL])
  expect(await locks(one)).toBe(6)
  for (const team of [CLINIC, HOSPITAL]) {
    for (const stream of [patients, forms, packets]) {
      await expect(lockStreams(two, [stream], [team])).rejects.toThrow(`${stream.name} of ${team.name}`)
    }
  }
})

test('another stream, and the same stream of another team, is free', async () => {
  await lockStreams(one, [patients], [CLINIC])
  await lockStreams(two, [forms, packets], [CLINIC])
  await lockStreams(two, [patients], [HOSPITAL, ELEVENTH])
  expect(await locks(two)).toBe(4)
})

test('an error names each stream that another run locks, in order, and no other', async () => {
  await lockStreams(one, [patients, packets], [CLINIC])
  await lockStreams(one, [forms], [HOSPITAL])
  await expect(lockStreams(two, [patients, forms, packets], [CLINIC, HOSPITAL])).rejects.toMatchObject({
    name: 'IntakeError',
    message:
      'another run holds patients of clinic, packets of clinic, forms of hospital; nothing was started',
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: expect.stringMatching(
      /^wait for the other run to end, or stop it: session \d+ \(intake-sync one, /,
    ),
  })
})

test('a run that is refused leaves every stream free that another does not hold', async () => {
  await lockStreams(one, [patients], [CLINIC])
  await expect(lockStreams(two, [forms, patients, packets], [CLINIC])).rejects.toThrow('patients of clinic')
  expect(await locks(two)).toBe(0)
  await lockStreams(one, [forms, packets], [CLINIC])
})

test('of several teams, a refused run leaves each stream free, and names the first of two other runs', async () => {
  const three = await openSession({ url: database.url, purpose: 'three' })
  await lockStreams(one, [packets], [CLINIC])
  await lockStreams(three, [forms], [HOSPITAL])
  await expect(
    lockStreams(two, [forms, packets, patients], [ELEVENTH, CLINIC, HOSPITAL]),
  ).rejects.toMatchObject({
    message: 'another run holds packets of clinic, forms of hospital; nothing was started',
    hint: expect.stringMatching(/: session \d+ \(intake-sync one, /),
  })
  expect(await locks(two)).toBe(0)
  await three.close()
})

test('locks last as long as their session, whatever its transactions do', async () => {
  await one.client.query('begin')
  await lockStreams(one, [patients], [CLINIC])
  await one.client.query('rollback')
  await expect(lockStreams(two, [patients], [CLINIC])).rejects.toThrow('patients of clinic')
  await one.close()
  await expect.poll(() => lockStreams(two, [patients], [CLINIC]).then(() => 'free', String)).toBe('free')
})

test('the lock is that of `team number/stream`, which can be requested alone', async () => {
  expect(await tryLock(two, 'stream', '1/patients')).toBe(true)
  await expect(lockStreams(one, [patients], [CLINIC])).rejects.toThrow('patients of clinic')
})

test('the locks of one team are released before the session ends, those of the others stay', async () => {
  await lockStreams(one, [patients, forms], [CLINIC, HOSPITAL])
  await unlockStreams(one, [patients, forms], CLINIC)
  await lockStreams(two, [patients, forms], [CLINIC])
  await expect(lockStreams(two, [patients, forms], [HOSPITAL])).rejects.toThrow(
    'patients of hospital, forms of hospital',
  )
})

test('an empty request is no error', async () => {
  await lockStreams(one, [], [CLINIC])
  await lockStreams(one, [patients], [])
  expect(await locks(one)).toBe(0)
})
