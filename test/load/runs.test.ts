/** The history of runs: a run marked as running is running, whoever looks and starts at the same time. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { IntakeError } from '../../src/core/errors.ts'
import { beginRun, finishRun, recordStream, type StreamReport, withinRun } from '../../src/load/runs.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { tryLock } from '../../src/warehouse/locks.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

/** Postgres takes a moment to end a session. */
const PATIENCE = { timeout: 60_000 }

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
  return () => database.drop()
})

const open = () => openSession({ url: database.url, purpose: 'run' })

const rows = (session: Session) => rowsOf(session, 'select * from intake_ops.runs order by run_id')

async function runs(session: Session): Promise<unknown[]> {
  return (await rows(session)).map(({ status }) => status)
}

/** Calls `action` once, before `session` first asks for a lock; counts the requested locks. */
function beforeLocking(session: Session, action: () => Promise<unknown>) {
  const query = session.client.query.bind(session.client) as (...words: unknown[]) => Promise<unknown>
  const called = { times: 0, locks: 0 }
  vi.spyOn(session.client, 'query').mockImplementation((async (...words: unknown[]) => {
    if (JSON.stringify(words[0]).includes('pg_try_advisory_lock')) called.locks += 1
    if (called.times === 0 && called.locks > 0) {
      called.times += 1
      await action()
    }
    return await query(...words)
  }) as never)
  return called
}

/** A run whose process was killed. */
async function killedRun(): Promise<string> {
  await using gone = await open()
  return await beginRun(gone, 'verify', {})
}

describe('a run that starts', () => {
  test('is in the history at once, with its options', async () => {
    await using one = await open()
    const options = { streams: ['forms'], full: true }
    const runId = await beginRun(one, 'backfill', options)
    await using other = await open()
    expect(await rows(other)).toEqual([
      expect.objectContaining({
        ...{ run_id: runId, kind: 'backfill', status: 'running', options },
        ...{ finished_at: null, error: null, started_at: expect.any(Date) },
      }),
    ])
  })

  test('locks its own id as long as its session lasts', async () => {
    await using other = await open()
    {
      await using one = await open()
      const runId = await beginRun(one, 'backfill', {})
      expect(await tryLock(other, 'run', runId)).toBe(false)
      expect(await tryLock(other, 'run', String(Number(runId) + 1))).toBe(true)
    }
    await expect.poll(() => tryLock(other, 'run', '1')).toBe(true)
  })

  test('is not marked interrupted by another that starts at the worst time', async () => {
    await using one = await open()
    await using other = await open()
    const called = beforeLocking(one, () => beginRun(other, 'verify', {}))
    await beginRun(one, 'backfill', {})
    expect(called.times).toBe(1)
    expect(await runs(other)).toEqual(['running', 'running'])
    await using third = await open()
    await beginRun(third, 'backfill', {})
    expect(await runs(third)).toEqual(['running', 'running', 'running'])
  })

  test('marks each run whose session ended as interrupted, with the reason, and leaves its end unknown', async () => {
    await using one = await open()
    await beginRun(one, 'backfill', {})
    await killedRun()
    await using next = await open()
    await vi.waitFor(async () => {
      await beginRun(next, 'backfill', {})
      expect((await runs(next)).slice(0, 2)).toEqual(['running', 'interrupted'])
    }, PATIENCE)
    const [lives, killed] = await rows(next)
    expect(killed).toMatchObject({
      error: 'the process ended before the run was complete',
      finished_at: null,
    })
    expect(lives).toMatchObject({ error: null })
  })

  test('frees the lock of a run that it marked, and keeps only its own', async () => {
    const killed = await killedRun()
    await using next = await open()
    let runId = ''
    await vi.waitFor(async () => {
      runId = await beginRun(next, 'backfill', {})
      expect((await runs(next))[0]).toBe('interrupted')
    }, PATIENCE)
    await using other = await open()
    expect(await tryLock(other, 'run', killed)).toBe(true)
    expect(await tryLock(other, 'run', runId)).toBe(false)
  })

  test('does not change runs that ended, also one that ends while it looks', async () => {
    await using next = await open()
    await using ending = await open()
    await finishRun(next.db, await killedRun(), 'needs_attention', 'x')
    const runId = await beginRun(ending, 'backfill', {})
    const called = beforeLocking(next, async () => {
      await finishRun(ending.db, runId, 'succeeded', null)
      await ending.close()
      await using other = await open()
      await vi.waitFor(async () => {
        const ended = await rowsOf(
          other,
          `select 1 from pg_locks join pg_database on database = pg_database.oid
           where locktype = 'advisory' and datname = current_database()`,
        )
        expect(ended).toEqual([])
      }, PATIENCE)
    })
    await beginRun(next, 'backfill', {})
    // It takes no lock for the one that ended before.
    expect(called).toEqual({ times: 1, locks: 2 })
    expect(await runs(next)).toEqual(['needs_attention', 'succeeded', 'running'])
    expect((await rows(next)).map(({ error }) => error)).toEqual(['x', null, null])
  })
})

test('a run that ends records how, why and when on the clock of the warehouse, and changes no other run', async () => {
  await using one = await open()
  await using other = await open()
  const running = await beginRun(other, 'backfill', {})
  const ended = await beginRun(one, 'verify', {})
  await one.client.query('begin')
  const [began] = await rowsOf<{ at: Date }>(one, 'select now() as at')
  await finishRun(one.db, ended, 'failed', 'out of disk')
  await one.client.query('commit')
  expect(await rows(one)).toMatchObject([
    { run_id: running, status: 'running', error: null, finished_at: null },
    { run_id: ended, status: 'failed', error: 'out of disk', finished_at: began!.at },
  ])
  const again = await beginRun(one, 'verify', {})
  await finishRun(one.db, again, 'succeeded', null)
  expect((await rows(one))[2]).toMatchObject({ status: 'succeeded', error: null })
})

test('a run that throws stores why, as a failure unless it was stopped or canceled; one that stores nothing only throws', async () => {
  const failure = new IntakeError('no disk', { code: 'internal', verdict: 'stop', hint: 'make room' })
  const within = async (what: 'fails' | 'is stopped' | 'is canceled' | 'is dry') => {
    await using session = await open()
    const runId = what === 'is dry' ? null : await beginRun(session, 'verify', {})
    const stop = new AbortController()
    const running = { url: database.url, runId, session, signal: stop.signal }
    const run = withinRun(running, async (signal) => {
      if (what === 'is stopped') stop.abort(new Error('SIGTERM'))
      if (what === 'is canceled') {
        await rowsOf(session, `update intake_ops.runs set canceled_by = 'ann' where run_id = $1`, [runId])
        await rowsOf(session, `select pg_notify('intake_canceled_runs', $1)`, [runId])
        await expect.poll(() => signal.aborted).toBe(true)
      }
      throw failure
    })
    await expect(run).rejects.toBe(failure)
  }
  for (const what of ['fails', 'is stopped', 'is canceled', 'is dry'] as const) await within(what)
  await using session = await open()
  const error = 'no disk — make room'
  expect(await rows(session)).toMatchObject([
    { status: 'failed', error, finished_at: expect.any(Date) },
    { status: 'interrupted', error },
    { status: 'interrupted', error },
  ])
})

test('a run that throws what is no error of ours says so in the history, and to its caller without its words', async () => {
  await using session = await open()
  const runId = await beginRun(session, 'verify', {})
  const running = { url: database.url, runId, session, signal: new AbortController().signal }
  const run = withinRun(running, () => Promise.reject(new TypeError('Jane Doe')))
  const words = expect.not.stringContaining('Jane')
  await expect(run).rejects.toMatchObject({ code: 'internal', message: words })
  expect(await rows(session)).toMatchObject([{ status: 'failed', error: words }])
})

test('the figures of a run are stored by run, team and stream, each in its own column', async () => {
  await using one = await open()
  const runId = await beginRun(one, 'backfill', {})
  const report: StreamReport = {
    ...{ status: 'needs_attention', requests: 11, throttled: 12, fetched: 13, changed: 14, unchanged: 15 },
    ...{
      deleted: 16,
      erased: 17,
      deadLetters: 18,
      problems: 19,
      seconds: 1.234,
      note: 'a person has to look',
    },
  }
  await recordStream(one.db, { runId, teamId: 3, stream: 'forms' }, report)
  await recordStream(
    one.db,
    { runId, teamId: 4, stream: 'forms' },
    { ...report, status: 'succeeded', note: null },
  )
  const { deadLetters, seconds, status, note, ...counts } = report
  const figures = Object.fromEntries(Object.entries(counts).map(([name, value]) => [name, String(value)]))
  const row = {
    run_id: runId,
    stream: 'forms',
    ...figures,
    dead_letters: String(deadLetters),
    seconds: String(seconds),
  }
  expect(await rowsOf(one, 'select * from intake_ops.run_streams order by team_id')).toEqual([
    { ...row, team_id: 3, status, note },
    { ...row, team_id: 4, status: 'succeeded', note: null },
  ])
})
