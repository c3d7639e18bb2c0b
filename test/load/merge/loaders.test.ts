/** Transient failures are retried and succeed; other failures are named, and the next run succeeds. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { type LoadMode, type LoadResult, loadBatch } from '../../../src/load/merge/load.ts'
import { type Loaders, openLoaders } from '../../../src/load/merge/loaders.ts'
import type { TakenSlice } from '../../../src/load/slice.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'
import { dumpStream } from '../../support/tables.ts'
import { rowsOf, takeWhole } from '../loading.ts'

let database: TestDatabase
let stranger: Session
let teamId = 0
let taken: TakenSlice

beforeAll(async () => {
  database = await createTestDatabase()
  stranger = await openSession({ url: database.url, purpose: 'stranger' })
})

afterAll(async () => {
  await stranger.close()
  await database.drop()
})

beforeEach(async () => {
  teamId += 1
  taken = await takeWhole(stranger, patients, teamId)
})

function people(names: readonly string[], team = teamId, seen = 0) {
  return names.map((name) =>
    recordEnvelope(
      { id: name, first_name: name, patient_tags: ['A', 'B'] },
      { teamId: team, stream: 'patients', observedAt: at(seen) },
    ),
  )
}

function load(loaders: Loaders, names: readonly string[], mode: LoadMode, seen = 0): Promise<LoadResult> {
  const lines = linesOf(patients, people(names, teamId, seen))
  return loaders.run((session) =>
    loadBatch(session, { stream: patients, taken, lines, deadLetters: [] }, mode),
  )
}

/** The result of a fresh load of the same patients. */
async function fresh(names: readonly string[], seen = 0): Promise<readonly string[]> {
  const team = teamId + 10_000
  const slice = await takeWhole(stranger, patients, team)
  await loadBatch(
    stranger,
    { stream: patients, taken: slice, lines: linesOf(patients, people(names, team, seen)), deadLetters: [] },
    'merge',
  )
  return dumpStream(stranger, patients, team)
}

const lockPatients = async () => {
  await stranger.client.query('begin')
  await stranger.client.query('lock table intake.patients in access exclusive mode')
}

/** A clock that runs `action` instead of its nth pause. */
const pausing = (action: (nth: number) => Promise<unknown>): Clock => {
  let pauses = 0
  return { now: systemClock.now, sleep: async () => void (await action(++pauses)) }
}

async function untilBlocked(count = 1): Promise<readonly number[]> {
  for (let tries = 0; tries < 6_000; tries++) {
    // Within a transaction Postgres shows its first snapshot of activity, unless asked to refresh it.
    await stranger.client.query('select pg_stat_clear_snapshot()')
    const rows = await rowsOf<{ pid: number }>(
      stranger,
      `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
       and application_name = 'intake-sync load'`,
    )
    if (rows.length >= count) return rows.map((row) => row.pid)
    await sleep(10)
  }
  throw new Error('no loader ever waited for a lock')
}

test.each(['straight', 'merge'] as const)(
  'a table that stays locked is reported as locked, and once it is free the same batch loads (%s)',
  async (mode) => {
    const retries: [string, number, number][] = []
    const pauses: number[] = []
    await using loaders = openLoaders({
      url: database.url,
      clock: { now: systemClock.now, sleep: async (milliseconds) => void pauses.push(milliseconds) },
      lockTimeoutMs: 60,
      onRetry: (...retry) => retries.push(retry),
    })
    await lockPatients()
    const error = await load(loaders.ofTeam(9), ['Ann', 'Bo'], mode).catch((each: unknown) => each)
    expect(error).toBeInstanceOf(IntakeError)
    expect(error).toMatchObject({
      code: 'table_locked',
      verdict: 'retry',
      hint: expect.stringContaining('pg_locks'),
    })
    expect(retries).toEqual([
      ['table_locked', 1, 9],
      ['table_locked', 2, 9],
    ])
    expect(pauses).toEqual([500, 1_000])
    await stranger.client.query('commit')
    expect(await dumpStream(stranger, patients, teamId)).toEqual([])
    expect(await load(loaders, ['Ann', 'Bo'], mode)).toMatchObject({ changed: 2 })
    expect(await dumpStream(stranger, patients, teamId)).toEqual(await fresh(['Ann', 'Bo']))
  },
)

test('a table that is freed between two attempts costs a retry and nothing else', async () => {
  await using loaders = openLoaders({
    url: database.url,
    clock: pausing(() => stranger.client.query('commit')),
    lockTimeoutMs: 60,
  })
  await lockPatients()
  expect(await load(loaders, ['Ann'], 'merge')).toMatchObject({ changed: 1 })
  expect(await dumpStream(stranger, patients, teamId)).toEqual(await fresh(['Ann']))
})

test.each(['straight', 'merge'] as const)(
  'a backend that is terminated during a batch is replaced, and the batch succeeds (%s)',
  async (mode) => {
    const retries: string[] = []
    await using loaders = openLoaders({
      url: database.url,
      clock: pausing(async () => {}),
      onRetry: (code) => retries.push(code),
    })
    await lockPatients()
    const loading = load(loaders, ['Ann', 'Bo'], mode)
    const [pid] = await untilBlocked()
    await stranger.client.query('select pg_terminate_backend($1)', [pid])
    await untilBlocked()
    await stranger.client.query('commit')
    expect(await loading).toMatchObject({ changed: 2 })
    expect(retries).toHaveLength(1)
    expect(['shutdown', 'warehouse_unreachable']).toContain(retries[0])
    expect(await dumpStream(stranger, patients, teamId)).toEqual(await fresh(['Ann', 'Bo']))
  },
)

test('a session that died between two batches is replaced', async () => {
  await using loaders = openLoaders({ url: database.url, clock: pausing(async () => {}), count: 1 })
  await load(loaders, ['Ann'], 'merge')
  await stranger.client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'intake-sync load' and datname = current_database()`,
  )
  await sleep(50)
  expect(await load(loaders, ['Bo'], 'merge')).toMatchObject({ changed: 1 })
  expect(await dumpStream(stranger, patients, teamId)).toEqual(await fresh(['Ann', 'Bo']))
})

test('a permanent failure is not retried', async () => {
  const retries: string[] = []
  await using loaders = openLoaders({
    url: database.url,
    clock: pausing(async () => {}),
    onRetry: (code) => retries.push(code),
  })
  await takeWhole(stranger, patients, teamId)
  await expect(load(loaders, ['Ann'], 'merge')).rejects.toMatchObject({ code: 'slice_lost' })
  await expect(loaders.run(async () => Promise.reject(new TypeError('Jane Doe')))).rejects.toMatchObject({
    code: 'internal',
    message: expect.not.stringContaining('Jane'),
  })
  expect(retries).toEqual([])
})

test('a service that cannot be reached is not asked again by another session: the client has tried for long enough', async () => {
  let tries = 0
  const pauses: number[] = []
  const clock: Clock = { ...systemClock, sleep: async (milliseconds) => void pauses.push(milliseconds) }
  await using loaders = openLoaders({ url: database.url, clock, onRetry: () => expect.fail('a retry') })
  const error = new IntakeError('nobody answers', { code: 'unreachable', verdict: 'retry' })
  const working = loaders.run(async () => {
    tries += 1
    throw error
  })
  await expect(working).rejects.toBe(error)
  expect([tries, pauses]).toEqual([1, []])
})

test('rows for an empty table are merged if some turn out to exist', async () => {
  await using loaders = openLoaders({ url: database.url, clock: systemClock })
  await load(loaders, ['Bo'], 'straight', 5)
  expect(await load(loaders, ['Ann', 'Bo', 'Cy'], 'straight', 9)).toMatchObject({ changed: 3, deleted: 0 })
  expect(await dumpStream(stranger, patients, teamId)).toEqual(await fresh(['Ann', 'Bo', 'Cy'], 9))
  const before = await dumpStream(stranger, patients, teamId)
  expect(await load(loaders, ['Ann', 'Bo', 'Cy'], 'straight', 7)).toMatchObject({ changed: 0, conflicts: [] })
  expect(await dumpStream(stranger, patients, teamId)).toEqual(before)
})

test('no more batches run at once than there are sessions, and closing waits for them', async () => {
  const loaders = openLoaders({ url: database.url, clock: systemClock, count: 2 })
  let running = 0
  let most = 0
  let done = 0
  const batches = Array.from({ length: 6 }, () =>
    loaders.run(async () => {
      most = Math.max(most, ++running)
      await sleep(100)
      running -= 1
      done += 1
    }),
  )
  await loaders.close()
  expect([most, done]).toEqual([2, 6])
  await Promise.all(batches)
  // A batch of a slice that is still being loaded leaves no session behind.
  await loaders.run(async () => {})
  const left = () =>
    rowsOf(
      stranger,
      `select from pg_stat_activity where datname = current_database() and application_name = 'intake-sync load'`,
    )
  await expect.poll(left).toEqual([])
})

test('a team is ready once none of its own work is queued, whatever it runs and others wait for; its sessions have settings', async () => {
  await using loaders = openLoaders({
    url: database.url,
    clock: systemClock,
    count: 1,
    total: 2,
    worker: 'aaaaaaa1',
  })
  const [one, other] = [loaders.ofTeam(1), loaders.ofTeam(2)]
  const ends: Record<string, () => void> = {}
  const until = (name: string) => () =>
    new Promise<void>((end) => {
      ends[name] = end
    })
  const running = () => Object.keys(ends).sort()
  const work = [one.run(until('one')), other.run(until('other'))]
  await expect.poll(running).toEqual(['one', 'other'])
  await one.ready()
  work.push(other.run(until('other, next')), one.run(until('one, next')))
  let isReady = false
  const ready = one.ready().then(() => {
    isReady = true
  })
  await loaders.ofTeam(3).ready()
  ends.other!()
  await expect.poll(running).toEqual(['one', 'other', 'other, next'])
  const early = isReady
  ends.one!()
  await ready
  await expect.poll(running).toHaveLength(4)
  for (const end of Object.values(ends)) end()
  await Promise.all(work)
  expect(early).toBe(false)
  const settings = await loaders.run(({ client }) =>
    client.query(
      `select current_setting('application_name') as name, current_setting('enable_seqscan') as seqscan, current_setting('jit') as jit`,
    ),
  )
  expect(settings.rows).toEqual([{ name: 'intake-sync load worker aaaaaaa1', seqscan: 'off', jit: 'off' }])
})

test('closing ends the work of a server that hangs after fifteen seconds, and does not try it again', async () => {
  let late = () => {}
  const clock: Clock = {
    ...systemClock,
    async sleep(milliseconds, signal) {
      expect(milliseconds).toBe(15_000)
      await new Promise<void>((resolve, reject) => {
        late = resolve
        signal?.addEventListener('abort', () => reject(signal.reason))
      })
    },
  }
  const loaders = openLoaders({ url: database.url, clock })
  let tries = 0
  const hanging = loaders.run(({ client }) => {
    tries += 1
    return client.query('select pg_sleep(600)')
  })
  const failure = expect(hanging).rejects.toMatchObject({ code: 'warehouse_unreachable', verdict: 'retry' })
  await expect.poll(() => tries).toBe(1)
  const closing = loaders.close()
  await expect(Promise.race([closing, sleep(50, 'waits')])).resolves.toBe('waits')
  late()
  await closing
  await failure
  expect(tries).toBe(1)
  // A server that does not hang notices at the end of the statement that nobody waits for it.
  await stranger.client.query(
    `select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'intake-sync load'`,
  )
})
