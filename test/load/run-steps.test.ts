/** How runs begin, are marked and end, without Postgres: every run that nobody continues is marked, and why one failed is stored. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { beginRun, finishRun, markInterrupted, storeFailure, withinRun } from '../../src/load/runs.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { scripted } from '../support/scripted.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
/** Runs that workers continue; runs whose process lives; how often a run cannot be closed yet. */
let [continued, living, open]: [string[], string[], number] = [[], [], 0]
/** What becomes of the sessions that are opened, and of the signal of a run. */
let away: Error | null
let running: string[]
let canceled: AbortController

vi.mock('../../src/warehouse/locks.ts', () => ({
  tryLock: async (...[, kind, name]: string[]) => {
    note('lock', kind, name)
    return !living.includes(name!)
  },
  unlock: async (...[, kind, name]: string[]) => note('unlock', kind, name),
}))
vi.mock('../../src/load/claims.ts', () => ({
  goesOn: async (_: unknown, runId: string) => continued.includes(runId),
}))
vi.mock('../../src/load/lost-slices.ts', () => ({
  closeAbandoned: async (_: unknown, ...of: unknown[]) => {
    note('close', ...of)
    open -= 1
    return open < 0
  },
  cancelSlices: async (_: unknown, runId: string, __: unknown, why: string) => note('cancel', runId, why),
}))
vi.mock('../../src/load/cancel-run.ts', () => ({
  openCancellation: async (session: unknown, { url, runId, signal }: Record<string, unknown>) => {
    note('listen', session, url, runId, signal)
    return { signal: canceled.signal, [Symbol.dispose]: () => note('listen no more') }
  },
}))
vi.mock('../../src/warehouse/connect.ts', () => ({
  openSession: async (options: unknown) => {
    note('open', options)
    if (away !== null) throw away
    return { db, [Symbol.asyncDispose]: async () => note('end session') }
  },
}))

const db = scripted((statement, values) => {
  if (statement.startsWith('select')) return running.map((run_id) => ({ run_id }))
  note(statement.split(' (')[0]!.replaceAll('"', ''), ...values)
  return [{ run_id: '7' }]
})
const session = { db } as unknown as Session

beforeEach(() => {
  steps.length = 0
  ;[continued, living, open, away, running] = [[], [], 0, null, []]
  canceled = new AbortController()
  vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds) => note('pause', milliseconds))
})

test('a run that is stored as running is marked as interrupted if its process is gone and no worker continues it', async () => {
  running = ['1', '2', '3', '4']
  continued = ['1']
  living = ['2']
  await markInterrupted(session)
  const marks = (run: string) => [
    ['lock', 'run', run],
    ['close', run],
    ['unlock', 'run', run],
  ]
  expect(steps).toEqual([['lock', 'run', '2'], ...marks('3'), ...marks('4')])
})

test('a run is stored and locked in one transaction, after others were marked; it ends under its own number', async () => {
  running = ['3']
  expect(await beginRun(session, 'verify', { full: true })).toBe('7')
  await finishRun(db, '7', 'needs_attention', 'why')
  expect(steps.slice(3)).toEqual([
    ['begin'],
    ['insert into intake_ops.runs', 'verify', '{"full":true}', null],
    ['lock', 'run', '7'],
    ['commit'],
    [expect.stringMatching(/^update intake_ops.runs set/), 'needs_attention', 'why', '7'],
  ])
})

const failure = (hint?: string) =>
  new IntakeError('no disk', { code: 'internal', verdict: 'stop', ...(hint === undefined ? {} : { hint }) })
const OPENED = ['open', { url: 'a warehouse', purpose: 'end of a run' }]

describe('why a run ended', () => {
  test('is stored once Postgres has noticed the end of its process, which is checked at most five times; what still runs is canceled', async () => {
    open = 2
    await storeFailure('a warehouse', '7', 'interrupted', failure('make room'))
    const error = 'no disk — make room'
    const look = ['close', '7', { status: 'interrupted', error }]
    const waits = [look, ['cancel', '7', error], ['pause', 200]]
    expect(steps).toEqual([OPENED, ...waits, ...waits, look, ['end session']])
    steps.length = 0
    open = 9
    await storeFailure('a warehouse', '7', 'failed', failure())
    expect(steps.filter(([name]) => name === 'close')).toEqual(
      Array(5).fill(['close', '7', { status: 'failed', error: 'no disk' }]),
    )
  })

  test('is not stored if workers continue a run that failed, or if the warehouse is away', async () => {
    continued = ['7']
    await storeFailure('a warehouse', '7', 'failed', failure())
    expect(steps.splice(0)).toEqual([OPENED, ['end session']])
    // A person who stops the process means the whole run, so workers do not continue it.
    await storeFailure('a warehouse', '7', 'interrupted', failure())
    expect(steps.splice(0).map(([name]) => name)).toEqual(['open', 'close', 'end session'])
    away = new Error('the warehouse is away')
    await storeFailure('a warehouse', '7', 'interrupted', failure())
    expect(steps).toEqual([OPENED])
  })
})

describe('work within a run', () => {
  const begun = (runId: string | null, signal = new AbortController().signal) => {
    return { url: 'a warehouse', runId, session, signal }
  }

  test('has the signal of the run, and listens for its end until the work ends; without a run it has the signal of its caller', async () => {
    const own = new AbortController().signal
    expect(await withinRun(begun('7', own), async (signal) => signal === canceled.signal)).toBe(true)
    expect(steps.splice(0)).toEqual([['listen', session, 'a warehouse', '7', own], ['listen no more']])
    expect(await withinRun(begun(null, own), async (signal) => signal === own)).toBe(true)
    await expect(withinRun(begun(null), () => Promise.reject(failure()))).rejects.toThrow('no disk')
    expect(steps).toEqual([])
  })

  test.each([
    ['failed', false],
    ['interrupted', true],
  ])('that throws ends the run as %s, and nothing listens any more', async (status, isStopped) => {
    const work = () => {
      if (isStopped) canceled.abort(new Error('canceled'))
      return Promise.reject(failure('make room'))
    }
    await expect(withinRun(begun('7'), work)).rejects.toMatchObject({ message: 'no disk', hint: 'make room' })
    expect(steps.slice(1)).toEqual([
      ['listen no more'],
      OPENED,
      ['close', '7', { status, error: 'no disk — make room' }],
      ['end session'],
    ])
  })
})
