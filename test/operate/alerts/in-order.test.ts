/** The steps of one round in their order, and of the rounds of a process, until it is closed. */
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import {
  type AlertRow,
  readAlerts,
  recordFailure,
  recordPosted,
  updateAlerts,
} from '../../../src/operate/alerts/alert-rows.ts'
import { findConditions } from '../../../src/operate/alerts/conditions.ts'
import { post } from '../../../src/operate/alerts/post.ts'
import { openAlerts, runRound } from '../../../src/operate/alerts/round.ts'
import { boundedQuery } from '../../../src/warehouse/bounded-queries.ts'
import { tryLock, unlock } from '../../../src/warehouse/locks.ts'

vi.mock('../../../src/operate/alerts/alert-rows.ts', async (load) => {
  const { isRaised, statusToPost } = await load<typeof import('../../../src/operate/alerts/alert-rows.ts')>()
  const [readAlerts, updateAlerts, recordPosted, recordFailure] = [vi.fn(), vi.fn(), vi.fn(), vi.fn()]
  return { isRaised, statusToPost, readAlerts, updateAlerts, recordPosted, recordFailure }
})
vi.mock('../../../src/operate/alerts/conditions.ts')
vi.mock('../../../src/operate/alerts/post.ts')
vi.mock('../../../src/warehouse/locks.ts')
vi.mock('../../../src/warehouse/bounded-queries.ts', async (load) => ({
  ...(await load<typeof import('../../../src/warehouse/bounded-queries.ts')>()),
  boundedQuery: vi.fn(),
}))

const row = (cause: AlertRow['cause'], more: Partial<AlertRow> = {}): AlertRow => ({
  ...{ team: 'north', cause, stream: '', id: cause, mark: null, figures: {}, raised_at: 'then' },
  ...{ cleared_at: null, posted: null, posted_mark: null, attempts: 0, is_due: true, ...more },
})
const KNOWN = row('drift', { posted: 'raised' })
const ENDED = row('defect', { posted: 'cleared', cleared_at: 'then' })
const SEEN = row('defect', { stream: 'x', posted: 'raised' })
const NEW = row('inbox_old')
const LATER = row('replay_failed', { is_due: false })

let steps: string[]
let said: Record<string, unknown>[]
/** The alerts that are stored before the conditions are found, and after. */
let stored: (readonly AlertRow[])[]
let isLocked: boolean
const stop = () => new AbortController()
const names = (rows: readonly AlertRow[]) => rows.map(({ cause }) => cause).join()
const noted = (step: string) => async (): Promise<void> => void steps.push(step)
const db = 'the database' as never

beforeEach(() => {
  steps = []
  said = []
  stored = [
    [KNOWN, ENDED, SEEN],
    [KNOWN, ENDED, SEEN, NEW, LATER],
  ]
  isLocked = true
  vi.mocked(boundedQuery).mockImplementation(async (options, work) => {
    steps.push(JSON.stringify(options))
    return await work(db)
  })
  vi.mocked(tryLock).mockImplementation(async (_, kind, name) => {
    steps.push(`lock ${kind} ${name}`)
    return isLocked
  })
  vi.mocked(unlock).mockImplementation(async (_, kind, name) => void steps.push(`unlock ${kind} ${name}`))
  vi.mocked(readAlerts).mockImplementation(async (_, teams) => {
    steps.push(`read ${teams}`)
    return stored.length > 1 ? stored.shift()! : stored[0]!
  })
  vi.mocked(findConditions).mockImplementation(async (_, { teams, thorough, raised, ...of }) => {
    const limits = `${of.inboxSeconds} s, ${of.maxAgeHours} h`
    steps.push(`find of ${teams}, thorough ${thorough}, raised ${[...raised]}, ${limits}`)
    return { conditions: [], isJudged: () => true, late: [] }
  })
  vi.mocked(updateAlerts).mockImplementation(async (_, rows) => void steps.push(`update ${names(rows)}`))
  vi.mocked(post).mockImplementation(async ({ url }, rows, { now, version }) => {
    steps.push(`post ${names(rows)} to ${url} at ${now.toISOString()} by ${version}`)
  })
  vi.mocked(recordPosted).mockImplementation(async (_, rows) => void steps.push(`posted ${names(rows)}`))
  vi.mocked(recordFailure).mockImplementation(async (_, rows) => void steps.push(`failed ${names(rows)}`))
})

const OPTIONS = {
  ...{ url: 'postgres://here', teams: ['north', 'south'], version: '1.2.3' },
  settings: { url: 'https://there', secret: null, inboxSeconds: 90, maxAgeHours: 5 },
  webhookChecks: { check: async () => [] },
  clock: { now: () => Date.UTC(2026, 0, 2) * 1000, sleep: async () => {} },
  logger: pino(
    { base: null, timestamp: false },
    { write: (line: string) => void said.push(JSON.parse(line)) },
  ),
}
const round = async (scope = { thorough: true, insist: false }, signal = stop().signal) => {
  steps.length = 0
  return [await runRound({ ...OPTIONS, signal }, scope), steps.slice(1)]
}
const LOOK = [
  ...['lock alerts alerts', 'read north,south'],
  'find of north,south, thorough true, raised north drift ,north defect x, 90 s, 5 h',
  ...['update drift,defect,defect', 'read north,south'],
]
const POST = 'post inbox_old,replay_failed to https://there at 2026-01-02T00:00:00.000Z by 1.2.3'

test('a round posts what the receiver does not know, records that, and only then leaves the work to others', async () => {
  expect(await round()).toEqual([
    'posted',
    [...LOOK, POST, 'posted inbox_old,replay_failed', 'unlock alerts alerts'],
  ])
  expect(said).toEqual([{ level: 30, alerts: 2, msg: 'alerts posted' }])
  expect(steps[0]).toBe('{"url":"postgres://here","purpose":"alerts","milliseconds":30000}')
})

test('a round that another process has reads nothing, and leaves its lock alone', async () => {
  isLocked = false
  expect(await round()).toEqual(['taken', ['lock alerts alerts']])
})

test('a post that failed is recorded before others may try, and reported with what to do', async () => {
  const reason = new IntakeError('not accepted', {
    code: 'alerts_refused',
    verdict: 'retry',
    hint: 'look there',
  })
  vi.mocked(post).mockRejectedValue(reason)
  expect(await round()).toEqual([
    'failed',
    [...LOOK, 'failed inbox_old,replay_failed', 'unlock alerts alerts'],
  ])
  expect(said).toEqual([
    { level: 40, code: 'alerts_refused', hint: 'look there', msg: 'alerts are delayed: not accepted' },
  ])
})

test('a post that is stopped with the process is no failure', async () => {
  const stopping = stop()
  vi.mocked(post).mockImplementation(async () => {
    stopping.abort()
    throw new IntakeError('stopped', { code: 'alerts_refused', verdict: 'retry' })
  })
  expect(await round(undefined, stopping.signal)).toEqual(['failed', [...LOOK, 'unlock alerts alerts']])
  expect(said).toEqual([])
})

test('nothing is posted while nothing waits, nor before the next attempt is due, unless somebody insists', async () => {
  for (const [after, insist, outcome] of [
    [[KNOWN, ENDED], false, 'quiet'],
    [[KNOWN, ENDED], true, 'quiet'],
    [[KNOWN, LATER], false, 'quiet'],
    [[KNOWN, LATER], true, 'posted'],
  ] as const) {
    stored = [[], after]
    expect([after.length, insist, (await round({ thorough: false, insist }))[0]]).toEqual([
      2,
      insist,
      outcome,
    ])
    expect(steps).toContain('find of north,south, thorough false, raised , 90 s, 5 h')
    expect(steps.at(-1)).toBe('unlock alerts alerts')
  }
})

test('queries that took too long are named; a lock that cannot be released harms nothing', async () => {
  vi.mocked(findConditions).mockResolvedValue({ conditions: [], isJudged: () => false, late: ['drift'] })
  vi.mocked(unlock).mockRejectedValue(new Error('lost'))
  expect((await round())[0]).toBe('posted')
  expect(said[0]).toEqual({ level: 40, late: ['drift'], msg: 'some alerts could not be evaluated in time' })
})

/** Rounds whose sleeps end when a test says so. */
function openRounds(post: () => Promise<void> = noted('posted')) {
  const sleeps = new Map<() => void, number>()
  const sleep = (milliseconds: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const wake = () => void (sleeps.delete(wake) && resolve())
      sleeps.set(wake, milliseconds)
      signal?.addEventListener('abort', () => sleeps.delete(wake) && reject(signal.reason))
    })
  vi.mocked(boundedQuery).mockImplementation(async (_, work) => {
    await post()
    return await work(db)
  })
  const { webhookChecks: _, ...options } = OPTIONS
  const clock = { ...OPTIONS.clock, sleep }
  const onPosted = (is: boolean) => void steps.push(`counted ${is}`)
  const alerts = openAlerts({ ...options, clock, inboxDays: 30, onPosted })
  const turns = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    return steps.splice(0).flatMap((step) => /^counted|thorough \w+/.exec(step)?.[0] ?? [])
  }
  const pass = async () => {
    for (const wake of [...sleeps.keys()]) wake()
    return await turns()
  }
  const close = () => alerts[Symbol.asyncDispose]()
  return { alerts, turns, pass, close, sleeping: () => [...sleeps.values()] }
}

test('a round begins every fifteen seconds, each fourth is thorough, and one that is asked for is thorough at once', async () => {
  const { alerts, turns, pass, sleeping, close } = openRounds()
  stored = [[]]
  expect([await turns(), sleeping()]).toEqual([[], [15_000]])
  for (const thorough of [true, false, false, false, true, false])
    expect(await pass()).toEqual([`thorough ${thorough}`])
  alerts.wake()
  expect([await turns(), sleeping()]).toEqual([['thorough true'], [15_000]])
  // One that is asked for counts among the four.
  expect([await pass(), await pass(), await pass()]).toEqual([
    ['thorough false'],
    ['thorough true'],
    ['thorough false'],
  ])
  stored = [[NEW]]
  expect(await pass()).toEqual(['thorough false', 'counted'])
  await close()
  expect([await turns(), sleeping()]).toEqual([[], []])
})

test('a run that ends during a round is judged by the next, at once; closing waits five seconds for a round', async () => {
  let end = () => {}
  const { alerts, turns, pass, sleeping, close } = openRounds(
    () =>
      new Promise<void>((resolve) => {
        end = resolve
      }),
  )
  stored = [[]]
  await pass()
  end()
  await turns()
  await pass()
  alerts.wake()
  end()
  expect(await turns()).toEqual(['thorough false'])
  let isClosed = false
  const closing = close().then(() => {
    isClosed = true
  })
  expect([await turns(), isClosed, sleeping()]).toEqual([[], false, [5_000]])
  await pass()
  expect(isClosed).toBe(true)
  await closing
  end()
  expect(await turns()).toEqual(['thorough true'])
  expect(sleeping()).toEqual([])
})
