/** A worker in this process, with work of this test: how much it executes at once, and what it gives back. */
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import type { Part, Settling, Works } from '../../src/extract/slices.ts'
import { openWorker, type Worker, type WorkOptions } from '../../src/extract/work.ts'
import { isCanceled } from '../../src/load/cancel-run.ts'
import { claimSlices, openWorkSession } from '../../src/load/claims.ts'
import { insertRun } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { sourceNamed } from './support/source-named.ts'

let database: TestDatabase
let session: Session
const ids: Record<string, number> = {}
const working: Worker[] = []
let logged: string[]
let failures: unknown[]
let ended: string[]

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  for (const name of ['one', 'two', 'unknown']) ids[name] = await teamIdOf(session.db, name)
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(() => {
  logged = []
  failures = []
  ended = []
})
afterEach(async () => {
  for (const worker of working.splice(0)) await worker.close()
  await rowsOf(session, 'delete from intake_ops.runs')
})

const hasty: Clock = {
  now: systemClock.now,
  sleep: (milliseconds, signal) => systemClock.sleep(Math.min(milliseconds, 20), signal),
}

/** Slices of this test's work wait here until they are let go; one that is aborted ends as interrupted, except the first `deaf`. */
interface Waiting {
  readonly part: Part
  readonly go: (error?: Error) => void
}
function openWork({ deaf = 0 } = {}) {
  const waiting: Waiting[] = []
  let most = 0
  let inHand = 0
  const works: Works = {
    verify: {
      async execute(part) {
        inHand += 1
        most = Math.max(most, inHand)
        const { signal } = part.options
        const made = (status: 'succeeded' | 'interrupted', note: string | null): Settling => {
          return { report: { status, note }, store: async () => {} }
        }
        try {
          return await new Promise<Settling>((resolve, reject) => {
            const stopped = () =>
              resolve(made('interrupted', String(signal.reason?.message ?? signal.reason)))
            if (waiting.length >= deaf) {
              signal.addEventListener('abort', stopped)
              if (signal.aborted) stopped()
            }
            waiting.push({ part, go: (error) => (error ? reject(error) : resolve(made('succeeded', null))) })
          })
        } finally {
          inHand -= 1
        }
      },
      close: async () => ({ status: 'succeeded', teams: ['one'], stale: null }),
    },
  }
  const names = () => waiting.map(({ part: { team, stream } }) => `${team.name} ${stream.name}`)
  return { works, waiting, names, most: () => most }
}

const source = (name: string) => {
  const wire = { send: nobody, open: nobody, close: async () => {} }
  return { ...sourceNamed(name), wire }
}
const nobody = () => Promise.reject(new Error('not asked'))

function start(works: Works, more: Partial<WorkOptions> = {}): Worker {
  const worker = openWorker({
    ...{ url: database.url, clock: hasty, random: Math.random, works, teams: [source('one'), source('two')] },
    logger: pino({ base: null }, { write: (line: string) => void logged.push(line) }),
    onRunEnded: async ({ runId }) => void ended.push(runId),
    onFailed: (error) => void failures.push(error),
    ...more,
  })
  working.push(worker)
  return worker
}

/** Plans patients and forms of each of these teams. */
async function plan(...names: readonly string[]): Promise<string> {
  const parts = names.flatMap((name) =>
    (['patients', 'forms'] as const).map((stream) => ({ teamId: ids[name]!, stream })),
  )
  const verify = { kind: 'verify', reserves: false } as const
  return await session.db.transaction().execute((db) => insertRun(db, {}, {}, parts, verify))
}
const states = async (run: string) =>
  (
    await rowsOf<{ what: string }>(
      session,
      `select concat_ws(' ', team.name, stream, state, nullif(takeovers, 0)) as what
       from intake_ops.slices left join intake.teams team using (team_id) where run_id = $1 order by slice_id`,
      [run],
    )
  ).map(({ what }) => what.trim())
const owners = () =>
  rowsOf<{ owner: string }>(session, `select distinct owner from intake_ops.slices where state = 'claimed'`)

test('no more slices are executed at once than it has places; each that ends makes room for another', async () => {
  const { works, waiting, most } = openWork()
  const worker = start(works, { concurrency: 2 })
  expect(worker.trouble()).toBe('has not begun')
  const run = await plan('one', 'two')
  for (let slices = 1; slices <= 4; slices++) {
    await expect.poll(() => waiting.length).toBe(Math.min(4, slices + 1))
    // Rounds without a free place.
    await systemClock.sleep(60)
    expect(waiting.length).toBe(Math.min(4, slices + 1))
    waiting[slices - 1]!.go()
  }
  await expect
    .poll(() => states(run))
    .toEqual(['one patients done', 'one forms done', 'two patients done', 'two forms done', 'done'])
  expect([ended, most(), worker.trouble(), failures]).toEqual([[run], 2, null, []])
})

test('a planned run is begun at once, however long a worker pauses between two rounds', async () => {
  const { works, waiting } = openWork()
  const clock: Clock = {
    now: systemClock.now,
    sleep: (_, signal) => new Promise((resolve) => signal?.addEventListener('abort', () => resolve())),
  }
  const worker = start(works, { clock })
  await expect.poll(() => worker.trouble()).toBe(null)
  await plan('one')
  await expect.poll(() => waiting.length).toBe(2)
  for (const { go } of waiting) go()
  await expect.poll(() => ended).toHaveLength(1)
})

test('only slices of its teams and, if it is of a run, of this run are executed', async () => {
  const { works, names } = openWork()
  const [other, run] = [await plan('two'), await plan('one', 'unknown')]
  start(works, { runId: run })
  await expect.poll(names).toHaveLength(2)
  await systemClock.sleep(60)
  expect(names().sort()).toEqual(['one forms', 'one patients'])
  expect((await states(run)).slice(2)).toEqual([
    'unknown patients pending',
    'unknown forms pending',
    'pending',
  ])
  expect(await states(other)).toEqual(['two patients pending', 'two forms pending', 'pending'])
})

test('a batch that is loaded again names its team in the log, and its session names the worker', async () => {
  const { works, waiting } = openWork()
  await plan('one', 'two')
  start(works)
  await expect.poll(() => waiting.length).toBe(4)
  const part = waiting.map((each) => each.part).find(({ team }) => team.name === 'two')!
  let tries = 0
  const name = await part.loaders.run(async (own) => {
    tries += 1
    if (tries === 1) throw Object.assign(new Error('no'), { code: '40001' })
    const [row] = await rowsOf<{ name: string }>(own, `select current_setting('application_name') as name`)
    return row!.name
  })
  // Others end the sessions of a worker by its digits.
  const [owner] = await owners()
  expect(name).toBe(`intake-sync load worker ${owner!.owner.split(':').at(-1)}`)
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    { team: 'two', attempt: 1, msg: 'loading again after a temporary failure' },
  ])
})

test('slices that it is executing when it is closed are given back, which counts as no takeover', async () => {
  const { works, waiting } = openWork()
  const run = await plan('one')
  const worker = start(works)
  await expect.poll(() => waiting.length).toBe(2)
  await worker.close()
  expect(await states(run)).toEqual(['one patients pending', 'one forms pending', 'pending'])
  expect(failures).toEqual([])
})

test('slices that it is executing when its run is canceled are canceled, and so are those that it has not begun', async () => {
  const { works, waiting } = openWork()
  const run = await plan('one', 'two')
  const worker = start(works, { concurrency: 1 })
  await expect.poll(() => waiting.length).toBe(1)
  const [owner] = await owners()
  expect(worker.cancel('stopped by ann')).toBe(owner!.owner)
  const canceled = ['one patients', 'one forms', 'two patients', 'two forms'].map(
    (what) => `${what} canceled`,
  )
  await expect.poll(() => states(run)).toEqual([...canceled, 'done'])
  expect(isCanceled(waiting[0]!.part.options.signal)).toBe(true)
  expect(waiting).toHaveLength(1)
  // The first reason stays.
  worker.cancel('again')
  const next = await plan('one')
  await expect.poll(() => ended).toEqual([run, next])
  const notes = await rowsOf(
    session,
    `select distinct result ->> 'note' as note from intake_ops.slices
    where run_id = ${next} and team_id is not null`,
  )
  for (const { note } of notes) expect(note).toContain('stopped by ann')
})

test('slices whose claim was under way when it was closed or canceled are given back, or canceled, and no failure', async () => {
  await using holder = await openSession({ url: database.url, purpose: 'holder' })
  // A claim takes as long as the holder wants.
  await holder.client.query(`
    create function delay() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock_shared(4711); return new; end $$;
    create trigger delay before update on intake_ops.slices for each row
    when (new.state = 'claimed' and old.state = 'pending') execute function delay()`)
  for (const isClosed of [true, false]) {
    const { works, waiting } = openWork()
    const run = await plan('one')
    await holder.client.query('select pg_advisory_lock(4711)')
    const worker = start(works)
    const claims = `select from pg_stat_activity where datname = current_database()
      and application_name like 'intake-sync work worker %' and wait_event_type = 'Lock'`
    await expect.poll(() => rowsOf(session, claims)).toHaveLength(1)
    const closed = isClosed ? worker.close() : undefined
    if (!isClosed) worker.cancel('stopped by ann')
    await holder.client.query('select pg_advisory_unlock(4711)')
    await closed
    const state = isClosed ? 'pending' : 'canceled'
    const wanted = ['one patients', 'one forms'].map((slice) => `${slice} ${state}`)
    await expect.poll(async () => (await states(run)).slice(0, 2)).toEqual(wanted)
    for (const { part } of waiting) expect(part.options.signal.aborted).toBe(true)
    await worker.close()
    expect(failures).toEqual([])
    await rowsOf(session, 'delete from intake_ops.runs')
  }
  await holder.client.query('drop function delay cascade')
})

describe('a slice that fails', () => {
  test('because the worker is being closed is no failure, and is given back', async () => {
    const { works, waiting } = openWork({ deaf: 1 })
    const run = await plan('one')
    const worker = start(works, { concurrency: 1 })
    await expect.poll(() => waiting.length).toBe(1)
    const closed = worker.close()
    waiting[0]!.go(new Error('interrupted'))
    await closed
    expect(failures).toEqual([])
    expect((await states(run))[0]).toMatch(/^one patients pending/)
  })

  test('is reported, given back as one that ended a worker, and executed again', async () => {
    const { works, waiting, names } = openWork()
    const run = await plan('one')
    start(works, { concurrency: 1 })
    await expect.poll(() => waiting.length).toBe(1)
    const error = new Error('a fault of ours')
    waiting[0]!.go(error)
    await expect.poll(() => waiting.length).toBe(2)
    expect(failures).toEqual([error])
    const msg = expect.stringMatching(/^a slice was given up: .*/)
    const line = { level: 40, run, team: 'one', stream: 'patients', code: 'internal', msg }
    expect(JSON.parse(logged[0]!)).toMatchObject(line)
    for (let at = 1; at < 3; at++) {
      await expect.poll(() => waiting.length).toBeGreaterThan(at)
      waiting[at]!.go()
    }
    await expect.poll(() => states(run)).toEqual(['one patients done 1', 'one forms done', 'done'])
    expect(names().filter((name) => name === 'one patients')).toHaveLength(2)
  })
})

test('a slice that it lost and has claimed again is in its hands, also when the former execution ends only then', async () => {
  const { works, waiting } = openWork({ deaf: 1 })
  const worker = start(works, { concurrency: 3, teams: [source('two')] })
  const run = await plan('two')
  await rowsOf(session, `delete from intake_ops.slices where stream = 'forms'`)
  await expect.poll(() => waiting.length).toBe(1)
  await rowsOf(
    session,
    `update intake_ops.slices set state = 'pending', owner = null, epoch = epoch + 1 where state = 'claimed'`,
  )
  await expect.poll(() => waiting.length).toBe(2)
  waiting[0]!.go()
  await expect.poll(() => logged.join()).toContain('a slice was given up')
  // Given back by the execution that had lost it, nothing changes: the worker says that it lives, round after round.
  for (let round = 0; round < 5; round++) {
    await rowsOf(
      session,
      `update intake_ops.slices set heartbeat_at = now() - interval '5 s' where state = 'claimed'`,
    )
    const lives = `select heartbeat_at > now() - interval '4 s' as lives from intake_ops.slices where state = 'claimed'`
    await expect.poll(() => rowsOf(session, lives)).toEqual([{ lives: true }])
  }
  // The other is stopped and given back when the worker closes.
  await worker.close()
  expect(waiting[1]!.part.options.signal.reason).toBe('the worker stops')
  expect((await states(run))[0]).toMatch(/^two patients pending/)
})

test('a slice that another worker has taken is stopped, and the others are not', async () => {
  const { works, waiting } = openWork()
  await plan('one')
  const other = await openWorkSession(database.url, 'dddddddd')
  start(works)
  await expect.poll(() => waiting.length).toBe(2)
  await rowsOf(
    session,
    `update intake_ops.slices set owner = $1, epoch = epoch + 1, heartbeat_at = now() + interval '1 hour'
     where stream = 'forms'`,
    [other.owner],
  )
  const signalOf = (stream: string) =>
    waiting.find(({ part }) => part.stream.name === stream)!.part.options.signal
  await expect.poll(() => signalOf('forms').reason?.message).toBe('another worker has the slice')
  expect([signalOf('patients').aborted, waiting.length, failures]).toEqual([false, 2, []])
  await other.session.close()
})

test('without its session it is another worker: what it was executing is stopped, and executed again by another name', async () => {
  const { works, waiting } = openWork({ deaf: 2 })
  const run = await plan('one')
  const worker = start(works, { concurrency: 2 })
  await expect.poll(() => waiting.length).toBe(2)
  // Its loading session ends with it, or the database of this test still has one.
  await waiting[0]!.part.loaders.run(async () => {})
  const [before] = await owners()
  const name = before!.owner.split(':').at(-1)
  await rowsOf(
    session,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()
       and application_name = 'intake-sync work worker ${name}'`,
  )
  await expect.poll(() => waiting.length).toBe(4)
  expect(waiting[0]!.part.options.signal.reason.message).toBe('the worker lost its session')
  const [after] = await owners()
  expect(after!.owner).not.toBe(before!.owner)
  // Only now do those of the former life end: they took no place, and store nothing.
  for (const { go } of waiting) go()
  await expect.poll(() => states(run)).toEqual(['one patients done 1', 'one forms done 1', 'done'])
  expect(worker.trouble()).toBe(null)
})

test('a worker that is silent loses its slices to it, though it still holds its lock', async () => {
  const { works, waiting } = openWork()
  const run = await plan('one')
  const silent = await openWorkSession(database.url, 'dddddddd')
  const slices = await claimSlices(silent.session.db, {
    ...{ owner: silent.owner, teams: ['one'], streams: ['patients', 'forms'], kinds: ['verify'], most: 2 },
  })
  expect(slices).toHaveLength(2)
  start(works)
  await rowsOf(
    session,
    `update intake_ops.slices set heartbeat_at = now() - interval '15 seconds' where state = 'claimed'`,
  )
  await expect.poll(() => waiting.length).toBe(2)
  for (const { go } of waiting) go()
  await expect.poll(() => states(run)).toEqual(['one patients done 1', 'one forms done 1', 'done'])
  await silent.session.close()
})

test('a worker that was kept waiting itself takes no slice of one that was silent meanwhile', async () => {
  const { works, waiting } = openWork()
  await plan('one')
  const silent = await openWorkSession(database.url, 'dddddddd')
  await claimSlices(silent.session.db, {
    ...{ owner: silent.owner, teams: ['one'], streams: ['patients', 'forms'], kinds: ['verify'], most: 2 },
  })
  // Between two of its rounds its clock goes on by so much.
  let step = 4_000_000
  let now = systemClock.now()
  const clock: Clock = {
    now: () => now,
    sleep: (milliseconds, signal) => {
      now += step
      return hasty.sleep(milliseconds, signal)
    },
  }
  start(works, { clock })
  const rounds = async () => {
    const [before] = [now]
    await expect.poll(() => now).toBeGreaterThan(before + 5 * step)
  }
  await rowsOf(session, `update intake_ops.slices set heartbeat_at = now() - interval '15 seconds'`)
  await rounds()
  expect(waiting).toHaveLength(0)
  step = 3_999_999
  await expect.poll(() => waiting.length).toBe(2)
  for (const { go } of waiting) go()
  await silent.session.close()
})

test('while it cannot claim it says why, in one line of the log, and goes on when it can', async () => {
  const { works, waiting } = openWork()
  const run = await plan('one')
  await rowsOf(session, 'alter table intake_ops.slices rename to slices_elsewhere')
  let worker: Worker
  try {
    worker = start(works)
    await expect.poll(() => failures.length).toBeGreaterThan(2)
    expect(worker.trouble()).toContain('the tables of the warehouse')
    expect(logged.filter((line) => line.includes('no slices can be claimed'))).toHaveLength(1)
  } finally {
    await rowsOf(session, 'alter table intake_ops.slices_elsewhere rename to slices')
  }
  await expect.poll(() => waiting.length).toBe(2)
  expect(worker.trouble()).toBe(null)
  for (const { go } of waiting) go()
  await expect.poll(() => ended).toEqual([run])
})
