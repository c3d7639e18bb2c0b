/** Whose streams a run takes: a person's run also those of a run that workers execute and whose process ended, a schedule's none. */
import { beforeEach, expect, test, vi } from 'vitest'
import { type BackfillOptions, lockTeams, type NumberedTeam } from '../../src/extract/backfill-options.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { silent } from '../ingest/drain/scene.ts'

const asked: unknown[] = []
vi.mock('../../src/load/runs.ts', async (original) => ({
  ...(await original<typeof import('../../src/load/runs.ts')>()),
  lockStreams: async (session: unknown, streams: unknown, teams: NumberedTeam[], more: unknown = 'none') => {
    asked.push([session, streams, teams.map(({ name }) => name), more])
  },
}))
beforeEach(() => void asked.splice(0))

const session = 'a session' as unknown as Session
const streams = 'the streams'
const lock = async (isScheduled: boolean | undefined, ...names: readonly string[]) => {
  const options = { streams, logger: silent, ...(isScheduled === undefined ? {} : { isScheduled }) }
  const teams = names.map((name) => ({ name })) as unknown as readonly NumberedTeam[]
  expect(await lockTeams(options as unknown as BackfillOptions, session, teams)).toEqual(teams)
  return asked
}

test.each([[undefined], [false]])('a person (%s) takes all teams at once, or none', async (isScheduled) => {
  expect(await lock(isScheduled, 'a', 'b')).toEqual([[session, streams, ['a', 'b'], { replaces: true }]])
  asked.length = 0
  expect(await lock(isScheduled, 'a')).toEqual([[session, streams, ['a'], { replaces: true }]])
})

test('a schedule takes each team by itself, and replaces no run', async () => {
  expect(await lock(true, 'a')).toEqual([[session, streams, ['a'], { replaces: false }]])
  asked.length = 0
  const each = ['a', 'b'].map((name) => [session, streams, [name], 'none'])
  expect(await lock(true, 'a', 'b')).toEqual(each)
})
