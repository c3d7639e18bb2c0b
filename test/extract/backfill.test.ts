/** A backfill in this process: when a team's part is over, what is closed, what it reports, and when it gives up. */
import { getEventListeners } from 'node:events'
import net from 'node:net'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Division } from '../../src/api/budget/division.ts'
import type { WireRequest } from '../../src/api/http/wire.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { type BackfillSummary, backfill } from '../../src/extract/backfill.ts'
import type { BackfillOptions, TeamSource } from '../../src/extract/backfill-options.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { openBudgets } from '../../src/load/budgets.ts'
import { countWorkers } from '../../src/load/claims.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { insertRun } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let session: Session
let logged: string[]
let ahead = 0

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  for (const name of ['one', 'two', 'three']) await teamIdOf(session.db, name)
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(() => {
  logged = []
  ahead = 0
})
afterEach(() => rowsOf(session, 'delete from intake_ops.runs'))

const hasty: Clock = {
  now: () => systemClock.now() + ahead,
  sleep: (milliseconds, signal) => systemClock.sleep(Math.min(milliseconds, 20), signal),
}

/** Every list has one record, once `ready` resolves. */
function source(name: string, ready: () => Promise<unknown> = async () => {}, more: object = {}): TeamSource {
  return {
    ...{ name, baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's', apiVersion: '', concurrency: 2 },
    wire: {
      async send({ target }: WireRequest) {
        await ready()
        const results = [{ id: `${name} ${target}`, first_name: 'A', questions: [] }]
        const body = Buffer.from(JSON.stringify({ count: 1, next: null, results }))
        return { status: 200, headers: {}, body }
      },
      open: () => Promise.reject(new Error('not asked')),
      close: async () => {},
    },
    ...more,
  }
}

const options = (teams: readonly TeamSource[], over: Partial<BackfillOptions> = {}): BackfillOptions => ({
  ...{
    url: database.url,
    teams,
    streams: (['patients', 'forms'] as const).map((each) => streamNamed(each)!),
  },
  ...{ window: EVERYTHING, allowMassDelete: false, dry: false, migrated: true, clock: hasty },
  ...{ random: Math.random, signal: new AbortController().signal, onProgress: () => {} },
  logger: pino({ base: null }, { write: (line: string) => void logged.push(line) }),
  ...over,
})
const runs = () =>
  rowsOf<{ status: string; error: string | null }>(session, 'select status, error from intake_ops.runs')

test('a team is reported as over, once, when its streams are read, even if another team or another of its runs continues', async () => {
  const packets = [{ teamId: await teamIdOf(session.db, 'one'), stream: 'packets' }] as const
  await session.db.transaction().execute((db) => insertRun(db, { is_detached: true }, {}, packets))
  const over: string[] = []
  let answer = () => {}
  const slow = new Promise<void>((resolve) => {
    answer = resolve
  })
  const teams = [source('two', () => slow), source('one')]
  const running = backfill(options(teams, { onTeamEnded: (name) => void over.push(name) }))
  await expect.poll(() => over).toEqual(['one'])
  // Looks at the run.
  await systemClock.sleep(100)
  expect(over).toEqual(['one'])
  // What it executes itself is of this run only.
  expect(await countWorkers(session.db)).toBe(0)
  // Another run may begin with the team.
  expect(await backfill(options([source('one')]))).toMatchObject({ status: 'succeeded' })
  answer()
  expect(await running).toMatchObject({ status: 'succeeded', teams: [{ name: 'two' }, { name: 'one' }] })
  expect(over).toEqual(['one', 'two'])
})

test.each([false, true])(
  'a team whose service asks for a longer pause than it waits ends alone, and is named (dry run: %s)',
  async (dry) => {
    const throttled = {
      ...source('one').wire!,
      send: async () => ({ status: 429, headers: { 'retry-after': '3' }, body: Buffer.from('{}') }),
    }
    const teams = [source('one', undefined, { wire: throttled, giveUpAfterMs: 2_000 }), source('two')]
    const summary = await backfill(options(teams, { dry }))
    const notes = summary.teams.map(({ name, streams }) => [
      name,
      ...streams.map(({ report }) => report.note),
    ])
    const note = expect.stringMatching(
      /^GET \/v2\/\w+: the service throttles this team and requests a pause longer than 2s \(429\) — /,
    )
    expect(notes).toEqual([
      ['one', note, note],
      ['two', null, null],
    ])
    const lines = logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'throttled')
    expect(lines).toMatchObject([{ team: 'one', retryAfterMs: 3_000 }])
  },
)

test.each([false, true])(
  'streams of a team are read side by side, and nothing listens to its signal afterwards (dry run: %s)',
  async (dry) => {
    let asked = 0
    let answer = () => {}
    const both = new Promise<void>((resolve) => {
      answer = resolve
    })
    const ready = async () => {
      asked += 1
      if (asked === 2) answer()
      await both
    }
    const { signal } = new AbortController()
    const summary = await backfill(options([source('one', ready)], { dry, signal }))
    expect([summary.status, asked, getEventListeners(signal, 'abort')]).toEqual(['succeeded', 2, []])
  },
)

test.each([false, true])('each request names the version of the program (dry run: %s)', async (dry) => {
  const agents = new Set<string | undefined>()
  const { wire } = source('one')
  const send = (request: WireRequest, signals: readonly AbortSignal[]) => {
    agents.add(request.headers['user-agent'])
    return wire!.send(request, signals)
  }
  const team = source('one', undefined, { wire: { ...wire!, send } })
  for (const over of [{ version: '1.2.3' }, {}]) await backfill(options([team], { dry, ...over }))
  expect([...agents]).toEqual(['intake-sync/1.2.3', 'intake-sync/0'])
})

describe('a run of two teams, and a dry one', () => {
  const counts = { opened: 0, closed: 0, limiter: 0 }
  const limits: Division['model'][] = []
  const summaries: BackfillSummary[] = []

  beforeAll(async () => {
    await using budgets = openBudgets(database.url)
    const counting = {
      ...budgets,
      ofTeam(teamId: number) {
        const budget = budgets.ofTeam(teamId)
        counts.opened += 1
        const close = async () => {
          counts.closed += 1
          await budget.close()
        }
        const update: typeof budget.update = (change) =>
          budget.update((stored, now) => {
            const made = change(stored, now)
            limits.push((made.division as unknown as Division).model)
            return made
          })
        return { ...budget, update, close }
      },
    }
    const rateLimit = { requests: 9_000, seconds: 2 }
    const permit = { accepted: () => {}, streaming: () => () => {}, throttled: () => true, lost: () => true }
    const limiter = {
      ...{ giveUpAfterMs: 60_000, acquire: async () => permit, permittedRate: () => null },
      close: async () => {
        counts.limiter += 1
      },
    }
    await rowsOf(
      session,
      `insert into intake_raw.question_terms (team_id, form_id, question_id, position, kind, shows, waits)
       select team_id, 'f', 'q of ' || name, 1, 'text', 'nothing', true from intake.teams`,
    )
    const [one] = await rowsOf<{ id: number }>(
      session,
      `select team_id as id from intake.teams where name = 'one'`,
    )
    for (const stream of ['patients', 'packets'] as const)
      await storeDeadLetters(session.db, { teamId: one!.id, stream, runId: null }, [
        { recordId: 'x', origin: 'event:e', reason: 'r', body: '{}' },
      ])
    const teams = [source('one', undefined, { rateLimit }), source('two', undefined, { limiter })]
    for (const dry of [false, true])
      summaries.push(await backfill(options(teams, { dry, budgets: counting })))
    await rowsOf(session, 'delete from intake_ops.dead_letters')
    await rowsOf(session, 'delete from intake_raw.question_terms')
  })

  test('report dead letters of their teams and streams that wait, and the first also reworded questions', () => {
    const attention = { status: 'needs_attention', teams: [{ waiting: 1 }, { waiting: 0 }] }
    expect(summaries).toMatchObject([
      { ...attention, waitingQuestions: [{ question_id: 'q of one' }, { question_id: 'q of two' }] },
      { ...attention, runId: null, waitingQuestions: [] },
    ])
  })

  test('give back every share of a budget, and leave a limiter of others open', () => {
    expect(counts).toEqual({ opened: 2, closed: 2, limiter: 0 })
    // The configured limit is that of all who share the budget.
    expect(limits.length).toBeGreaterThan(1)
    for (const limit of limits) expect(limit).toMatchObject({ count: 9_000, window: 2_000_000 })
  })
})

test('a run of other streams whose process was killed is marked as interrupted by the next one', async () => {
  await rowsOf(session, `insert into intake_ops.runs (kind, options) values ('backfill', '{}')`)
  expect(await backfill(options([source('one')]))).toMatchObject({ status: 'succeeded' })
  expect((await runs()).map(({ status }) => status).sort()).toEqual(['interrupted', 'succeeded'])
})

test('a dry run that is stopped is interrupted, and stores no run', async () => {
  const stop = new AbortController()
  const teams = [source('one', async () => stop.abort(new Error('SIGTERM')))]
  const { signal } = stop
  expect(await backfill(options(teams, { dry: true, signal }))).toMatchObject({
    status: 'interrupted',
    runId: null,
  })
  expect(await runs()).toEqual([])
})

test('a run that is stopped before it begins is interrupted, and asks the service nothing', async () => {
  let asked = 0
  const teams = [
    source('one', async () => {
      asked += 1
    }),
  ]
  const signal = AbortSignal.abort(new Error('SIGTERM'))
  expect(await backfill(options(teams, { signal }))).toMatchObject({ status: 'interrupted' })
  expect([asked, (await runs())[0]!.status]).toEqual([0, 'interrupted'])
})

/** The end of an answer, and the error with which a server that shuts down ends a session (57P01). */
const READY = Buffer.from('Z\0\0\0\x05I', 'latin1')
const SHUTDOWN = Buffer.from('E\0\0\0\x16SFATAL\0C57P01\0Mx\0\0', 'latin1')

/** A way to the warehouse that can end one session between two statements: an error first, the end half a second later. */
async function openWayTo(url: string, purpose: string) {
  const { hostname, port } = new URL(url)
  let isEnding = false
  const server = net.createServer({ noDelay: true }, (near) => {
    const far = net.connect(Number(port), hostname)
    let isOfPurpose = false
    near.once('data', (startup) => {
      isOfPurpose = startup.includes(`intake-sync ${purpose}\0`)
    })
    near.pipe(far).on('data', (piece) => {
      near.write(piece)
      if (!isEnding || !isOfPurpose || !piece.subarray(-READY.length).equals(READY)) return
      far.removeAllListeners('data').resume()
      near.write(SHUTDOWN)
      setTimeout(() => near.destroy(), 500)
    })
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.on('error', () => {}).on('close', () => other.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const way = new URL(url)
  way.host = `127.0.0.1:${(server.address() as net.AddressInfo).port}`
  const end = () => {
    isEnding = true
  }
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()))
  return { url: way.href, end, [Symbol.asyncDispose]: close }
}

test('a run whose session ends fails at once, though the error comes before the end: without its lock, that does not pass', async () => {
  let asked = false
  let answer = () => {}
  const slow = new Promise<void>((resolve) => {
    answer = resolve
  })
  const ready = async () => {
    asked = true
    await slow
  }
  await using way = await openWayTo(database.url, 'backfill')
  const ended = backfill(options([source('one', ready)], { url: way.url })).then(
    ({ status }) => status,
    (error: { code: string }) => error.code,
  )
  await expect.poll(() => asked).toBe(true)
  const endedAt = systemClock.now()
  way.end()
  await systemClock.sleep(500)
  answer()
  expect(await ended).toMatch(/^warehouse_/)
  // Half a minute is for troubles that pass.
  expect(systemClock.now() - endedAt).toBeLessThan(20_000_000)
  expect(await runs()).toMatchObject([{ status: 'failed', error: expect.any(String) }])
})

describe('a run that can claim nothing', () => {
  /** Claims fail for a reason that may pass. */
  async function withoutClaims<Result>(
    work: (restore: () => Promise<unknown>) => Promise<Result>,
  ): Promise<Result> {
    await rowsOf(
      session,
      `create function refuse_claim() returns trigger language plpgsql as $$
       begin raise exception 'not now' using errcode = '40001'; end $$`,
    )
    await rowsOf(
      session,
      `create trigger refuse_claim before update on intake_ops.slices for each row when (new.state = 'claimed')
       execute function refuse_claim()`,
    )
    const restore = () => rowsOf(session, 'drop function if exists refuse_claim cascade')
    try {
      return await work(restore)
    } finally {
      await restore()
    }
  }
  const isRefused = () => logged.some((line) => line.includes('no slices can be claimed'))

  test('for less than thirty seconds goes on', async () => {
    const { status } = await withoutClaims(async (restore) => {
      const running = backfill(options([source('one')]))
      await expect.poll(isRefused).toBe(true)
      ahead = 25_000_000
      await systemClock.sleep(100)
      await restore()
      return await running
    })
    expect(status).toBe('succeeded')
  })

  test('for longer ends as failed, with the reason', async () => {
    await withoutClaims(async () => {
      const running = backfill(options([source('one')]))
      running.catch(() => {})
      await expect.poll(isRefused).toBe(true)
      ahead = 31_000_000
      await expect(running).rejects.toMatchObject({ verdict: 'retry' })
    })
    expect(await runs()).toMatchObject([{ status: 'failed', error: expect.any(String) }])
  })
})
