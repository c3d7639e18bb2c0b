/** The steps of a backfill in this process, without a warehouse: what its worker is given, and what is done when it ends. */
import { EventEmitter } from 'node:events'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { Limiter } from '../../src/api/budget/limiter.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { backfill } from '../../src/extract/backfill.ts'
import { type BackfillOptions, fingerprintOf } from '../../src/extract/backfill-options.ts'
import type { WorkOptions } from '../../src/extract/work.ts'
import { forms } from '../../src/streams/forms.ts'
import { patients } from '../../src/streams/patients.ts'
import { scripted } from '../support/scripted.ts'
import { sourceNamed } from './support/source-named.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
/** What each look at the run finds, and what happens then. */
let looks: (() => object)[]
let trouble: string | null
let worker: WorkOptions
let client: EventEmitter

vi.mock('../../src/extract/planned-backfill.ts', () => ({
  planRun: async () => ({ runId: '9', teams: TEAMS }),
  readTeams: async (_: unknown, runId: string) => {
    note('read teams', runId)
    return [{ name: 'one' }, { name: 'two' }]
  },
}))
vi.mock('../../src/extract/work.ts', () => ({
  openWorker: (options: WorkOptions) => {
    worker = options
    return {
      trouble: () => trouble,
      cancel: (reason: string) => {
        note('cancel', reason)
        return 'its owner'
      },
      close: async () => note('close worker'),
    }
  },
}))
vi.mock('../../src/load/cancel-run.ts', () => ({
  STOPPED: 'stopped',
  stopRun: async (_: unknown, runId: string, owner: unknown) => note('stop run', runId, owner),
}))
vi.mock('../../src/load/runs.ts', () => ({
  storeFailure: async (...of: unknown[]) => note('store failure', ...of),
}))
vi.mock('../../src/analytics/classify.ts', () => ({
  waitingQuestions: async () => ['one', 'two', 'other'].map((team) => ({ team })),
}))
vi.mock('../../src/api/budget/limiter.ts', () => ({
  openLimiter: (options: { team: string }) => {
    note('open limiter', options)
    return { of: options.team, close: async () => note('close limiter', options.team) }
  },
}))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<typeof import('../../src/warehouse/connect.ts')>()),
  openSession: async (options: unknown) => {
    note('open', options)
    return { client, db, [Symbol.asyncDispose]: async () => note('close') }
  },
}))

const limiter = { close: () => expect.unreachable() } as unknown as Limiter
const TEAMS = [
  { ...sourceNamed('one'), teamId: 1, giveUpAfterMs: 5, rateLimit: { requests: 2, seconds: 1 } },
  { ...sourceNamed('two'), teamId: 2, limiter },
  { ...sourceNamed('three'), teamId: 3 },
]
const db = scripted((statement) => {
  if (statement.startsWith('select status from')) return [{ status: 'needs_attention' }]
  const look = looks.shift()!()
  return [{ isOver: false, open: [], ...look }]
})
let now = 0
const clock = { now: () => now, sleep: async () => {} }
let stop: AbortController
const over: string[] = []

beforeEach(() => {
  steps.length = over.length = now = 0
  ;[looks, trouble, client, stop] = [[], null, new EventEmitter(), new AbortController()]
})

const run = (more: object = {}) =>
  backfill({
    ...{
      url: 'a warehouse',
      clock,
      random: 'random',
      logger: 'a logger',
      signal: stop.signal,
      version: '1.2',
    },
    ...{ onProgress: 'on progress', onTeamEnded: (name: string) => void over.push(name), dry: false },
    ...{ streams: [patients, forms], migrated: true, budgets: { ofTeam: (id: number) => `budget of ${id}` } },
    ...more,
  } as unknown as BackfillOptions)
const named = (...names: readonly string[]) => steps.filter(([name]) => names.includes(name as string))
const CLOSED = [['close worker'], ['close limiter', 'one'], ['close limiter', 'three'], ['close']]

test('its worker executes this run only, with a limiter for each team that lacks one; each team ends once', async () => {
  looks = [
    () => ({ open: ['one', 'two', 'three'] }),
    () => ({ open: ['two'] }),
    () => ({ open: ['two'] }),
    () => ({ isOver: true }),
  ]
  const running = run()
  await expect.poll(() => worker?.runId).toBe('9')
  while (looks.length > 0) await worker.onRunEnded({} as never)
  expect(await running).toEqual({
    ...{ runId: '9', status: 'needs_attention', teams: [{ name: 'one' }, { name: 'two' }] },
    waitingQuestions: [{ team: 'one' }, { team: 'two' }],
  })
  expect(over).toEqual(['one', 'three', 'two'])
  expect(steps[0]).toEqual(['open', { url: 'a warehouse', purpose: 'backfill' }])
  const limits = (at: number) => {
    const { concurrency, giveUpAfterMs, rateLimit, name: team, teamId } = TEAMS[at]! as (typeof TEAMS)[0]
    const store = `budget of ${teamId}`
    return ['open limiter', { concurrency, giveUpAfterMs, rateLimit, store, clock, logger: 'a logger', team }]
  }
  expect(named('open limiter')).toEqual([limits(0), limits(2)])
  expect(worker).toMatchObject({
    ...{ url: 'a warehouse', clock, random: 'random', logger: 'a logger', onProgress: 'on progress' },
    ...{ version: '1.2', runId: '9', concurrency: 24 },
  })
  expect(worker.teams.map(({ name, limiter }) => [name, limiter])).toEqual([
    ['one', expect.objectContaining({ of: 'one' })],
    ['two', limiter],
    ['three', expect.objectContaining({ of: 'three' })],
  ])
  expect(worker.teams.map((team) => fingerprintOf(team))).toEqual(TEAMS.map((team) => fingerprintOf(team)))
  expect(steps.slice(-5)).toEqual([['read teams', '9'], ...CLOSED])
  expect(client.listenerCount('end')).toBe(0)
})

describe('a run that a signal stops', () => {
  test.each([
    [null, 'its owner'],
    ['no session', null],
  ])('cancels its worker once; the run is stopped for all others (trouble: %s)', async (why, owner) => {
    trouble = why
    const stops = () => {
      stop.abort(new Error('SIGTERM'))
      return {}
    }
    looks = [stops, () => ({ isOver: true })]
    await run()
    const canceled = ['cancel', 'stopped']
    expect(named('cancel', 'stop run')).toEqual([
      ...[canceled, ...(owner === null ? [] : [canceled]), ['stop run', '9', owner]],
    ])
    expect(steps.slice(-4)).toEqual(CLOSED)
  })
})

describe('a run that fails', () => {
  const failure = (message: string, code = 'internal', verdict = 'stop') =>
    new IntakeError(message, { code, verdict } as never)

  test.each([false, true])(
    'ends with the first failure, stored as an interruption only if it was stopped (%s)',
    async (isStopped) => {
      looks = [
        () => {
          if (isStopped) stop.abort(new Error('SIGTERM'))
          worker.onFailed!(failure('lost', 'slice_lost'))
          worker.onFailed!(failure('passes', 'deadlock', 'retry'))
          worker.onFailed!(failure('first'))
          worker.onFailed!(failure('second'))
          return {}
        },
      ]
      await expect(run()).rejects.toThrow('first')
      const status = isStopped ? 'interrupted' : 'failed'
      expect(named('store failure')).toEqual([
        ['store failure', 'a warehouse', '9', status, failure('first')],
      ])
      const closes = steps.slice(steps.findIndex(([name]) => name === 'close worker'))
      expect(closes.map(([name]) => name)).toEqual([
        ...['close worker', 'store failure', 'close worker', 'close limiter', 'close limiter', 'close'],
      ])
    },
  )

  test('for a temporary reason goes on for half a minute after its last successful claim', async () => {
    const passes = () => worker.onFailed!(failure('passes', 'deadlock', 'retry'))
    const looksAt = (at: number, why: string | null) => () => {
      ;[now, trouble] = [at, why]
      passes()
      return {}
    }
    looks = [looksAt(29_000_000, null), looksAt(40_000_000, 'no'), looksAt(58_999_999, 'no')]
    looks.push(() => {
      passes()
      return { isOver: true }
    })
    expect(await run()).toMatchObject({ runId: '9' })
    looks = [looksAt(80_000_000, null), looksAt(90_000_000, 'no'), looksAt(110_000_001, 'no')]
    await expect(run()).rejects.toThrow('passes')
  })

  test('because its status cannot be read fails at once if the session has ended or the reason is permanent', async () => {
    const broken = Object.assign(new Error('x'), { code: '40P01' })
    const fails = () => {
      throw broken
    }
    looks = [fails, () => ({ isOver: true })]
    expect(await run()).toMatchObject({ runId: '9' })
    looks = [
      () => {
        client.emit('end')
        return fails()
      },
    ]
    await expect(run()).rejects.toMatchObject({ code: 'deadlock' })
    looks = [() => fails.call(Object.assign(broken, { code: '53100' }))]
    await expect(run()).rejects.toMatchObject({ code: 'disk_full' })
  })
})
