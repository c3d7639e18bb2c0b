/** One slice in the hands of a worker, and the end of a run: what is stored, of the slice and of others, however the work ends. */
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { closeRun, type Execution, executeSlice, type Work, withinLimit } from '../../src/extract/slices.ts'
import { Canceled } from '../../src/load/cancel-run.ts'
import { type ClaimedClose, type ClaimedStream, claimSlices } from '../../src/load/claims.ts'
import { openLoaders } from '../../src/load/merge/loaders.ts'
import { recordStream, type StreamReport } from '../../src/load/runs.ts'
import { insertRun, NOTHING, type RunKind } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let session: Session
const ids: Record<string, number> = {}
let worker: Pick<Execution, 'loaders' | 'bounded'>
let stop: AbortController
let logged: string[]

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'work' })
  for (const name of ['one', 'two']) ids[name] = await teamIdOf(session.db, name)
  const { url } = database
  worker = { loaders: openLoaders({ url, clock: systemClock }), bounded: openBoundedQueries(url, 1) }
})
afterAll(async () => {
  await worker.loaders.close()
  await worker.bounded.close()
  await session.close()
  await database.drop()
})
beforeEach(async () => {
  await rowsOf(session, 'delete from intake_ops.runs')
  stop = new AbortController()
  logged = []
})

const report = (over: Partial<StreamReport> = {}): StreamReport => ({
  ...{ ...NOTHING, status: 'succeeded', fetched: 7, note: null },
  ...over,
})
const failing = (code: IntakeError['code'], verdict: IntakeError['verdict']) =>
  new IntakeError('it fails', { code, verdict, hint: 'look at it' })
const FAILED = 'it fails — look at it'

/** Plans patients and forms of both teams; claims the patients of one of them. */
async function claim(kind: RunKind = 'backfill'): Promise<ClaimedStream> {
  const parts = (['patients', 'forms'] as const).flatMap((stream) =>
    Object.values(ids).map((teamId) => ({ teamId, stream })),
  )
  const plan = { kind, reserves: kind === 'backfill' }
  await session.db.transaction().execute((db) => insertRun(db, {}, {}, parts, plan))
  const kinds = [kind === 'backfill' ? 'stream' : kind]
  const [claimed] = await claimSlices(session.db, {
    ...{ owner: 'host:1:abcdef01', teams: ['one'], streams: ['patients'], most: 1, kinds },
  })
  return claimed as ClaimedStream
}

const execution = (onRunEnded: (ended: object) => void = () => {}): Execution => ({
  ...{ ...worker, worker: 'abcdef01', signal: stop.signal, turn: (work) => work(session) },
  options: {
    ...{ url: database.url, clock: systemClock, random: Math.random },
    logger: pino({ base: null, timestamp: false }, { write: (line: string) => void logged.push(line) }),
    onRunEnded: async (ended) => onRunEnded(ended),
  },
})

/** Without a request the service is never asked. */
const source = {
  ...{
    name: 'one',
    baseUrl: 'http://127.0.0.1:1',
    apiKey: 'k',
    apiSecret: 's',
    apiVersion: '',
    concurrency: 2,
  },
  wire: {
    send: async () => ({
      status: 200,
      headers: { 'x-service-environment': 'sandbox' },
      body: Buffer.from('{}'),
    }),
    open: () => Promise.reject(new Error('not asked')),
    close: async () => {},
  },
}

const outcome = { status: 'succeeded', teams: ['one'], stale: null } as const
const workOf = (execute: Work['execute'], close: Work['close'] = async () => outcome): Work => ({
  execute,
  close,
})
/** Ends with this report. */
const ends = (made: StreamReport): Work =>
  workOf(async ({ claimed: { runId, stream, taken } }) => ({
    report: made,
    store: (db) => recordStream(db, { runId, stream, teamId: taken.teamId }, made),
  }))

const slices = async () =>
  (
    await rowsOf<{ what: string; result: { status: string; note: string | null; fetched: number } | null }>(
      session,
      `select concat_ws(' ', team.name, stream, state, nullif(takeovers, 0)) as what, result
       from intake_ops.slices left join intake.teams team using (team_id) where team_id is not null order by slice_id`,
    )
  ).map(({ what, result }) => (result === null ? what : [what, result.status, result.note, result.fetched]))
const stored = () =>
  rowsOf(
    session,
    'select team_id as team, stream, status, fetched::int, note from intake_ops.run_streams order by 1, 2',
  )
const lines = () => logged.map((line) => JSON.parse(line))
const PENDING = ['two patients pending', 'one forms pending', 'two forms pending']

describe('a slice', () => {
  test('is loaded by the loaders of its team, so that a team that is slow takes none of the others', async () => {
    const asked: number[] = []
    const ofTeam = (teamId: number) => {
      asked.push(teamId)
      return worker.loaders.ofTeam(teamId)
    }
    const own = { ...execution(), loaders: { ...worker.loaders, ofTeam } }
    await executeSlice(own, await claim(), source, ends(report()))
    expect(asked).toEqual([ids.one])
  })

  test('is settled with its report, what its work stores, and the environment that the service names', async () => {
    const claimed = await claim()
    const { execute } = ends(report())
    const asks = workOf(async (part) => {
      await part.team.client.get('/v2/patients')
      return await execute(part)
    })
    await executeSlice(execution(), claimed, source, asks)
    expect(await slices()).toEqual([['one patients done', 'succeeded', null, 7], ...PENDING])
    expect(await stored()).toMatchObject([{ team: ids.one, stream: 'patients', fetched: 7 }])
    expect(await rowsOf(session, 'select name, environment from intake.teams order by 1')).toEqual([
      { name: 'one', environment: 'sandbox' },
      { name: 'two', environment: null },
    ])
  })

  test('whose service does not name its environment leaves the name that is stored', async () => {
    await rowsOf(session, `update intake.teams set environment = 'production'`)
    await executeSlice(execution(), await claim(), source, ends(report()))
    const environments = await rowsOf(session, 'select distinct environment from intake.teams')
    expect(environments).toEqual([{ environment: 'production' }])
    await rowsOf(session, 'update intake.teams set environment = null')
  })

  test('of a worker that stops is given back at once, and nothing is stored', async () => {
    const claimed = await claim()
    stop.abort('the worker stops')
    await executeSlice(execution(), claimed, source, ends(report({ status: 'interrupted' })))
    expect(await slices()).toEqual(['one patients pending', ...PENDING])
    expect(await stored()).toEqual([])
  })

  test('of a worker that stops has its last lines in the log, though others may continue it at once', async () => {
    const claimed = { ...(await claim()), takeovers: 1 }
    const log = async () =>
      (
        await rowsOf<{ line: string }>(
          session,
          `select concat_ws(' ', level, name, stream, message) as line
           from intake_ops.run_log left join intake.teams using (team_id) order by run_log.line`,
        )
      ).map(({ line }) => line)
    const place = { team: 'one', stream: 'patients' }
    const lines = [
      'warn one patients taken over from a worker that ended: the figures of the stream will be those of its last worker',
      'error one patients reading',
    ]
    const stopped = workOf(async ({ progress, options }) => {
      options.logger.error(place, 'reading')
      await expect.poll(log).toEqual(lines)
      stop.abort('the worker stops')
      progress.logger.info('interrupted')
      return { report: report({ status: 'interrupted' }), store: async () => {} }
    })
    await executeSlice(execution(), claimed, source, stopped)
    expect([(await slices())[0], await log()]).toEqual([
      'one patients pending',
      [...lines, 'info interrupted'],
    ])
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([place, place, { msg: 'interrupted' }])
  })

  test('that ends just as the worker stops is settled, and says nothing about the others of its team', async () => {
    const { execute } = ends(report())
    const stopped = workOf(async (part) => {
      stop.abort('the worker stops')
      return await execute(part)
    })
    await executeSlice(execution(), await claim(), source, stopped)
    expect(await slices()).toEqual([['one patients done', 'succeeded', null, 7], ...PENDING])
  })

  test('of a canceled run is canceled with what was loaded, and so are those that no worker has', async () => {
    const claimed = await claim()
    stop.abort(new Canceled('canceled by ann'))
    await executeSlice(execution(), claimed, source, ends(report({ status: 'interrupted', note: 'n' })))
    const [note, state] = ['canceled by ann; the next run continues', 'canceled']
    expect(await slices()).toEqual([
      ['one patients canceled', 'interrupted', 'n', 7],
      ...['two patients', 'one forms', 'two forms'].map((what) => [
        `${what} ${state}`,
        'interrupted',
        note,
        0,
      ]),
    ])
  })

  test('whose team is refused fails the other streams of the team in this run, and of no other team or run', async () => {
    const other = await claim()
    // Nobody knows the work of the other run.
    await rowsOf(
      session,
      `update intake_ops.slices set state = 'pending', reserves = false, spec = spec || '{"kind": "another"}'
       where run_id = $1`,
      [other.runId],
    )
    const claimed = await claim()
    const { execute } = ends(report({ status: 'failed', note: 'refused' }))
    const refused = workOf(async (part) => {
      part.team.giveUp(new Error('refused'))
      return await execute(part)
    })
    await executeSlice(execution(), claimed, source, refused)
    expect((await slices()).slice(4)).toEqual([
      ['one patients done', 'failed', 'refused', 7],
      'two patients pending',
      ['one forms done', 'failed', 'refused', 0],
      'two forms pending',
    ])
    expect((await slices()).slice(0, 4)).toEqual(['one patients pending', ...PENDING])
    expect(await stored()).toHaveLength(2)
  })

  test('whose report cannot be stored fails with its figures; a temporary failure, and a lost slice, are thrown', async () => {
    for (const error of [failing('warehouse_unreachable', 'retry'), failing('slice_lost', 'stop')]) {
      const lost = workOf(async () => ({ report: report(), store: () => Promise.reject(error) }))
      await expect(executeSlice(execution(), await claim(), source, lost)).rejects.toBe(error)
      expect(await slices()).toEqual(['one patients claimed', ...PENDING])
      await rowsOf(session, 'delete from intake_ops.runs')
    }
    const refused = failing('internal', 'stop')
    await executeSlice(
      execution(),
      await claim(),
      source,
      workOf(async () => ({ report: report(), store: () => Promise.reject(refused) })),
    )
    expect(await slices()).toEqual([['one patients done', 'failed', FAILED, 7], ...PENDING])
    expect(await stored()).toMatchObject([{ status: 'failed', fetched: 7, note: FAILED }])
    expect(lines()).toEqual([
      { level: 50, team: 'one', stream: 'patients', code: 'internal', msg: 'it fails' },
    ])
  })

  test('of a verification that cannot be stored leaves no figures of a backfill', async () => {
    const refused = failing('internal', 'stop')
    const lost = workOf(async () => ({ report: report(), store: () => Promise.reject(refused) }))
    await executeSlice(execution(), await claim('verify'), source, lost)
    expect((await slices())[0]).toEqual(['one patients done', 'failed', FAILED, 7])
    expect(await stored()).toEqual([])
  })

  test('is given up after ten workers that ended with it, and not before', async () => {
    const claimed = await claim()
    let executed = 0
    const { execute } = ends(report())
    const counts = workOf((part) => {
      executed += 1
      return execute(part)
    })
    await executeSlice(execution(), { ...claimed, takeovers: 11 }, source, counts)
    const note = '11 workers ended while they read it: see their logs, and their memory'
    expect(await slices()).toEqual([['one patients done', 'failed', note, 0], ...PENDING])
    await rowsOf(session, 'delete from intake_ops.runs')
    await executeSlice(execution(), { ...(await claim()), takeovers: 10 }, source, counts)
    expect(executed).toBe(1)
  })
})

describe('the end of a run', () => {
  async function closing(): Promise<ClaimedClose> {
    const { runId } = await claim()
    await rowsOf(session, `update intake_ops.slices set state = 'done' where team_id is not null`)
    await rowsOf(
      session,
      `update intake_ops.slices set result = '{"note": "see there"}' where stream = 'forms'`,
    )
    const [claimed] = await claimSlices(session.db, {
      ...{ owner: 'host:1:abcdef01', teams: [], streams: [], most: 1, runId },
    })
    return claimed as ClaimedClose
  }
  const run = () =>
    rowsOf(session, 'select status, error, finished_at is not null as ended from intake_ops.runs')
  const states = async () =>
    (
      await rowsOf<{ state: string }>(session, 'select state from intake_ops.slices where team_id is null')
    ).map(({ state }) => state)
  const NOTES = 'one/forms: see there\ntwo/forms: see there'
  const closes = (close: Work['close']) => workOf(() => Promise.reject(new Error('no')), close)

  test('stores how it ended, reports it, and settles its own slice last', async () => {
    const claimed = await closing()
    const seen: unknown[] = []
    const onEnded = (ended: object) => void seen.push(ended)
    const close = closes(async () => ({ ...outcome, stale: 'the views are old' }))
    const observed = execution(onEnded)
    const { onRunEnded } = observed.options
    const options = {
      ...observed.options,
      async onRunEnded(ended: Parameters<typeof onRunEnded>[0]) {
        seen.push(await states(), await run())
        await onRunEnded(ended)
      },
    }
    await closeRun({ ...observed, options }, claimed, close)
    const stored = { status: 'succeeded', error: NOTES, ended: true }
    expect(seen).toEqual([
      ['claimed'],
      [stored],
      { runId: claimed.runId, status: 'succeeded', teams: ['one'] },
    ])
    expect([await states(), await run()]).toEqual([['done'], [stored]])
    expect(lines()).toEqual([{ level: 40, msg: 'the views are old' }])
  })

  test('with failures after the streams stores and logs each of them', async () => {
    const failures = ['one: a', 'two: b']
    const claimed = await closing()
    await closeRun(
      execution(),
      claimed,
      closes(async () => ({ ...outcome, status: 'failed', failures })),
    )
    expect(await run()).toEqual([{ status: 'failed', error: `${NOTES}\none: a\ntwo: b`, ended: true }])
    expect(lines()).toEqual(failures.map((msg) => ({ level: 50, run: claimed.runId, msg })))
  })

  test('that itself fails is a failed run with the reason', async () => {
    const seen: unknown[] = []
    const error = failing('internal', 'stop')
    const claimed = await closing()
    await closeRun(
      execution((ended) => void seen.push(ended)),
      claimed,
      closes(() => Promise.reject(error)),
    )
    expect(await run()).toEqual([{ status: 'failed', error: `${NOTES}\n${FAILED}`, ended: true }])
    expect(seen).toEqual([{ runId: claimed.runId, status: 'failed', teams: [] }])
    expect(await states()).toEqual(['done'])
    expect(lines()).toEqual([{ level: 50, run: claimed.runId, code: 'internal', msg: 'it fails' }])
  })

  test('that somebody canceled is interrupted, whatever its streams were', async () => {
    const claimed = await closing()
    await rowsOf(session, `update intake_ops.runs set canceled_by = 'ann'`)
    await closeRun(
      execution(),
      claimed,
      closes(async () => outcome),
    )
    expect(await run()).toMatchObject([{ status: 'interrupted' }])
  })

  test('by a worker that lost it changes nothing, and is reported to nobody', async () => {
    const claimed = await closing()
    await rowsOf(session, `update intake_ops.slices set epoch = epoch + 1 where team_id is null`)
    const seen: unknown[] = []
    const late = closeRun(
      execution((ended) => void seen.push(ended)),
      claimed,
      closes(async () => outcome),
    )
    await expect(late).rejects.toMatchObject({ code: 'slice_lost' })
    expect([await run(), seen]).toEqual([[{ status: 'running', error: null, ended: false }], []])
  })
})

describe('a statement of a worker', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())

  test('that takes ten seconds has lost the warehouse', async () => {
    let late = 0
    const waiting = withinLimit(new Promise(() => {}), () => {
      late += 1
    })
    waiting.catch(() => {})
    vi.advanceTimersByTime(9_999)
    expect(late).toBe(0)
    vi.advanceTimersByTime(1)
    expect(late).toBe(1)
    await expect(waiting).rejects.toMatchObject({
      ...{ code: 'warehouse_slow', verdict: 'retry', message: 'the warehouse did not answer in time' },
      hint: 'look at its load and its locks (pg_stat_activity)',
    })
  })

  test('that ends before leaves no timer behind', async () => {
    expect(await withinLimit(Promise.resolve(7), () => {})).toBe(7)
    await expect(withinLimit(Promise.reject(new Error('no')), () => {})).rejects.toThrow('no')
    expect(vi.getTimerCount()).toBe(0)
  })
})
