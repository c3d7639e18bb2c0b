/** The steps of planning a backfill and of executing a part of it, without a warehouse: their order, and what each is given. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type BackfillOptions,
  fingerprintOf,
  type NumberedTeam,
  placeHashOf,
} from '../../src/extract/backfill-options.ts'
import { BACKFILLS, planBackfill, planRun } from '../../src/extract/planned-backfill.ts'
import type { Part } from '../../src/extract/slices.ts'
import { forms } from '../../src/streams/forms.ts'
import { patients } from '../../src/streams/patients.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { scripted } from '../support/scripted.ts'
import { sourceNamed } from './support/source-named.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
/** Teams whose questions cannot be matched; the stored reports. */
let unmatched: number[]
let rows: object[]
let stale: string | null

vi.mock('../../src/extract/backfill-options.ts', async (original) => ({
  ...(await original<typeof import('../../src/extract/backfill-options.ts')>()),
  numberTeams: async (_: unknown, session: unknown) => {
    note('number', session)
    return TEAMS
  },
  lockTeams: async (_: unknown, session: unknown, teams: readonly NumberedTeam[]) => {
    note('lock', session, teams)
    return teams.slice(0, 2)
  },
}))
vi.mock('../../src/load/runs.ts', () => ({
  markInterrupted: async (session: unknown) => note('mark', session),
  unlockStreams: async (session: unknown, streams: readonly { name: string }[], team: NumberedTeam) =>
    note(
      'unlock',
      session,
      streams.map(({ name }) => name),
      team.teamId,
    ),
  recordStream: async (...of: unknown[]) => note('record', ...of),
}))
vi.mock('../../src/load/slice.ts', () => ({
  insertRun: async (_: unknown, ...of: unknown[]) => {
    note('insert', ...of)
    return '9'
  },
}))
vi.mock('../../src/warehouse/locks.ts', () => ({
  tryLock: async (_: unknown, ...of: unknown[]) => note('lock of', ...of),
}))
vi.mock('../../src/load/claims.ts', () => ({ countWorkers: async () => 5 }))
vi.mock('../../src/load/dead-letters.ts', () => ({
  countWaiting: async (_: unknown, teamId: number, streams: readonly string[]) => {
    note('waiting', teamId, streams)
    return 0
  },
}))
vi.mock('../../src/load/exports/file-problems.ts', () => ({
  matchQuestions: async (_: unknown, teamId: number) => {
    note('match', teamId)
    if (unmatched.includes(teamId)) throw Object.assign(new Error('x'), { code: '53100' })
  },
}))
vi.mock('../../src/analytics/refresh.ts', () => ({
  refreshAnalytics: async () => {
    note('refresh')
    return stale
  },
}))
vi.mock('../../src/warehouse/connect.ts', () => ({
  openSession: async (options: unknown) => {
    note('open', options)
    return { ...session, [Symbol.asyncDispose]: async () => note('close') }
  },
}))
vi.mock('../../src/extract/run-stream.ts', () => ({
  runStream: async (run: unknown) => {
    note('run', run)
    return 'the report'
  },
}))

const TEAMS: readonly NumberedTeam[] = ['one', 'two', 'left out'].map((name, at) => ({
  ...{ ...sourceNamed(name), apiKey: `key of ${name}`, teamId: at + 1 },
}))
const db = scripted((statement) => {
  if (['begin', 'commit'].includes(statement)) note(statement)
  return rows
})
const session = { db } as unknown as Session

beforeEach(() => {
  steps.length = 0
  ;[unmatched, rows, stale] = [[], [], null]
})
afterEach(() => expect(steps.every(([name]) => name !== 'rollback')).toBe(true))

const window = { lookbackDays: 1, sweepDays: 2, full: false, since: null }
const options = {
  ...{ url: 'a warehouse', streams: [patients, forms], allowMassDelete: true, window },
} as unknown as BackfillOptions
const partsOf = (source: (team: NumberedTeam) => string) =>
  ['patients', 'forms'].flatMap((stream) =>
    TEAMS.slice(0, 2).map((team) => ({ teamId: team.teamId, stream, source: source(team) })),
  )
const REQUESTED = { streams: ['patients', 'forms'], teams: ['one', 'two'], allow_mass_delete: true }
const SPEC = { window, allow_mass_delete: true }

test('a run of this process is planned and locked in one transaction; then the streams of each team are unlocked', async () => {
  expect(await planRun(options, session)).toEqual({ runId: '9', teams: TEAMS.slice(0, 2) })
  expect(steps).toEqual([
    ['mark', session],
    ['number', session],
    ['lock', session, TEAMS],
    ['begin'],
    ['insert', REQUESTED, SPEC, partsOf(fingerprintOf)],
    ['lock of', 'run', '9'],
    ['commit'],
    ['unlock', session, ['patients', 'forms'], 1],
    ['unlock', session, ['patients', 'forms'], 2],
  ])
})

test('a run that only workers execute is detached: it has no lock, and its workers may have other settings', async () => {
  const planned = await planBackfill(options)
  expect(planned).toEqual({ runId: '9', teams: ['one', 'two'], slices: 5, workers: 5 })
  expect(steps.map(([name]) => name)).toEqual([
    ...['open', 'number', 'lock', 'begin', 'insert', 'commit', 'unlock', 'unlock', 'close'],
  ])
  expect(steps[0]).toEqual(['open', { url: 'a warehouse', purpose: 'plan' }])
  expect(steps[4]).toEqual(['insert', { ...REQUESTED, is_detached: true }, SPEC, partsOf(placeHashOf)])
})

test('a slice is read as planned, by its worker, and its report is stored under its team and stream', async () => {
  const seen: unknown[] = []
  for (const onProgress of [undefined, (...of: unknown[]) => void seen.push(of)]) {
    steps.length = 0
    const taken = { teamId: 2, stream: 'forms' }
    const part = {
      claimed: { taken, runId: '9', spec: SPEC },
      ...{ team: { name: 'two', teamId: 2 }, stream: forms, loaders: 'loaders', progress: 'progress' },
      ...{ worker: 'abcdef01', options: { url: 'a warehouse', clock: 'a clock', onProgress } },
    } as unknown as Part
    const { report, store } = await BACKFILLS.stream!.execute(part)
    await store('db' as never)
    expect(report).toBe('the report')
    const run = {
      ...{ url: 'a warehouse', clock: 'a clock', teams: [], streams: [forms], dry: false, migrated: true },
      ...{ allowMassDelete: true, window, onProgress: onProgress ?? expect.any(Function) },
    }
    expect(steps).toEqual([
      [
        'run',
        {
          ...{ team: part.team, stream: forms, loaders: 'loaders', progress: 'progress', runId: '9' },
          ...{ options: run, claimed: { taken, worker: 'abcdef01' } },
        },
      ],
      ['record', 'db', { runId: '9', teamId: 2, stream: 'forms' }, 'the report'],
    ])
  }
})

describe('the end of a run', () => {
  const stored = (teamId: number, ...streams: string[]) => ({
    ...{ team_id: teamId, name: `team ${teamId}` },
    streams: streams.map((stream) => ({ stream, report: { status: 'succeeded', deadLetters: 0 } })),
  })
  const close = () => BACKFILLS.close!.close(db, '9')

  test('matches the questions of each team whose exports were read, and then brings the views up to date', async () => {
    rows = [stored(1, 'patients'), stored(2, 'patients', 'exports'), stored(3, 'exports', 'forms'), stored(4)]
    stale = 'the views are old'
    const names = [1, 2, 3, 4].map((teamId) => `team ${teamId}`)
    expect(await close()).toEqual({ status: 'succeeded', failures: [], stale, teams: names })
    expect(steps).toEqual([
      ['waiting', 1, ['patients']],
      ['waiting', 2, ['patients', 'exports']],
      ['waiting', 3, ['exports', 'forms']],
      ['waiting', 4, []],
      ...[['match', 2], ['match', 3], ['refresh']],
    ])
  })

  test('names each team whose questions cannot be matched, and goes on', async () => {
    rows = [1, 2, 3].map((teamId) => stored(teamId, 'exports'))
    unmatched = [1, 3]
    const { status, failures } = await close()
    const full = 'the disk of the warehouse is full'
    expect([status, failures]).toEqual(['failed', [`team 1: ${full}`, `team 3: ${full}`]])
    expect(steps.slice(3)).toEqual([['match', 1], ['match', 2], ['match', 3], ['refresh']])
  })
})
