/** The steps of a backfill that only compares, without a warehouse: what it reads of each team, and when its connections are closed. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { backfill } from '../../src/extract/backfill.ts'
import type { BackfillOptions, NumberedTeam } from '../../src/extract/backfill-options.ts'
import { forms } from '../../src/streams/forms.ts'
import { patients } from '../../src/streams/patients.ts'
import { sourceNamed } from './support/source-named.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
/** By team, what its streams report. */
let reports: Record<string, (stream: string) => Promise<object>>

vi.mock('../../src/load/dead-letters.ts', () => ({
  countWaiting: async (_: unknown, teamId: number, names: readonly string[]) => {
    note('waiting', teamId, names)
    return teamId - 1
  },
}))
vi.mock('../../src/load/merge/loaders.ts', () => ({
  openLoaders: (options: object) => {
    note('open loaders', options)
    const ofTeam = (teamId: number) => `loaders of ${teamId}`
    return { ofTeam, [Symbol.asyncDispose]: async () => note('close loaders') }
  },
}))
vi.mock('../../src/extract/backfill-options.ts', async (original) => ({
  ...(await original<typeof import('../../src/extract/backfill-options.ts')>()),
  numberTeams: async () => TEAMS,
  openTeam: ({ name, teamId }: { name: string; teamId: number }) => ({
    ...{ name, teamId, [Symbol.asyncDispose]: async () => note('close team', name) },
  }),
}))
vi.mock('../../src/extract/run-stream.ts', () => ({
  async runStream(given: unknown) {
    const { team, stream, loaders, runId, progress } = given as {
      team: NumberedTeam
      stream: { name: string }
    } & Record<string, unknown>
    expect([runId, loaders, progress]).toEqual([...[null, `loaders of ${team.teamId}`, expect.anything()]])
    return await reports[team.name]!(stream.name)
  },
}))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<typeof import('../../src/warehouse/connect.ts')>()),
  openSession: async () => ({ db: 'the warehouse', [Symbol.asyncDispose]: async () => note('close') }),
}))

const TEAMS = ['one', 'two', 'three'].map((name, at) => ({ ...sourceNamed(name), teamId: at + 1 }))
const clock = 'a clock'
let stop: AbortController
beforeEach(() => {
  steps.length = 0
  ;[stop, reports] = [new AbortController(), {}]
})

const run = (more: object = {}) =>
  backfill({
    ...{ url: 'a warehouse', clock, logger: 'a logger', signal: stop.signal },
    ...{ streams: [patients, forms], migrated: true, dry: true, ...more },
  } as unknown as BackfillOptions)
const named = (...names: readonly string[]) => steps.filter(([name]) => names.includes(name as string))

describe('a dry run', () => {
  const ended = (name: string, status = 'succeeded') => ({ status, deadLetters: 0, name })

  test('reads every stream of every team, and reports what waits for each; nothing is closed before all have ended', async () => {
    for (const { name } of TEAMS) reports[name] = async (stream) => ended(stream)
    const { teams, ...summary } = await run()
    expect(summary).toEqual({ runId: null, status: 'needs_attention', waitingQuestions: [] })
    expect(teams).toEqual(
      TEAMS.map(({ name, teamId }) => ({
        ...{ name, waiting: teamId - 1 },
        streams: ['patients', 'forms'].map((stream) => ({ stream, report: ended(stream) })),
      })),
    )
    expect(named('waiting')).toEqual([1, 2, 3].map((teamId) => ['waiting', teamId, ['patients', 'forms']]))
    expect(named('open loaders')).toEqual([['open loaders', { url: 'a warehouse', clock, total: 8 }]])
    expect(steps.slice(-2)).toEqual([['close loaders'], ['close']])
    expect((await run({ migrated: false })).teams.map(({ waiting }) => waiting)).toEqual([0, 0, 0])
  })

  test('that fails for one team ends when the others have ended; one that is stopped is interrupted', async () => {
    let end = () => {}
    const slow = new Promise<void>((resolve) => {
      end = resolve
    })
    reports = {
      one: () => Promise.reject(Object.assign(new Error('x'), { code: '53100' })),
      two: async (stream) => slow.then(() => ended(stream)),
      three: async (stream) => ended(stream, 'failed'),
    }
    const running = run()
    await expect.poll(() => named('close team').map(([, name]) => name)).toEqual(['one', 'three'])
    expect(named('close loaders', 'close')).toEqual([])
    end()
    await expect(running).rejects.toMatchObject({ code: 'disk_full' })
    for (const { name } of TEAMS) reports[name] = async (stream) => ended(stream, 'failed')
    expect((await run()).status).toBe('failed')
    stop.abort(new Error('SIGTERM'))
    expect((await run()).status).toBe('interrupted')
  })
})
