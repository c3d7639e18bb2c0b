/** How the streams of a run are locked, without Postgres: in which order, what stays locked, and which run an error names. */
import { beforeEach, expect, test, vi } from 'vitest'
import { lockStreams, unlockStreams } from '../../src/load/runs.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import type { Session } from '../../src/warehouse/connect.ts'

const steps: unknown[] = []
/** By key: the session that has the lock; by team and stream, the run that reserves it; runs that may be, and are, freed. */
let [locked, planned]: Record<string, string>[] = [{}, {}]
let [abandoned, freed]: string[][] = [[], []]

vi.mock('../../src/warehouse/locks.ts', () => ({
  tryLock: async (...[, kind, key]: string[]) => {
    steps.push(`${kind} ${key}`)
    return locked![key!] === undefined
  },
  unlock: async (...[, kind, key]: string[]) => void steps.push(`unlock ${kind} ${key}`),
  lockHolders: async (...[db, kind, key]: string[]) => `${db}: ${kind} of ${locked![key!]}`,
}))
vi.mock('../../src/load/slice.ts', () => ({
  plannedRunOf: async (...[, team, stream]: unknown[]) => planned![`${team}/${stream}`] ?? null,
}))
vi.mock('../../src/load/lost-slices.ts', () => ({
  isAbandoned: async (_: unknown, { runId }: { runId: string }, replaces: boolean) => {
    steps.push(`abandoned? ${runId} ${replaces}`)
    return abandoned!.includes(runId)
  },
  freeAbandoned: async (_: unknown, place: object, replaces: boolean) => {
    const { runId, teamId, stream } = place as Record<string, string>
    steps.push(`free ${runId} ${teamId}/${stream} ${replaces}`)
    return freed!.includes(runId!)
  },
}))
vi.mock('../../src/load/claims.ts', () => ({}))
vi.mock('../../src/load/cancel-run.ts', () => ({}))

beforeEach(() => {
  steps.length = 0
  ;[locked, planned] = [{}, {}]
  ;[abandoned, freed] = [[], []]
})

const session = { db: 'the warehouse' } as unknown as Session
const streams = (['patients', 'forms'] as const).map((name) => streamNamed(name)!)
const teams = [
  { teamId: 1, name: 'north' },
  { teamId: 2, name: 'south' },
]
const lock = (options?: { replaces?: boolean }) => lockStreams(session, streams, teams, options)
const KEYS = ['1/patients', '1/forms', '2/patients', '2/forms']
const LOCKS = KEYS.map((key) => `stream ${key}`)
const UNLOCKS = (...keys: string[]) => keys.map((key) => `unlock stream ${key}`)
const refused = (what: string, hint: string) => ({
  ...{ code: 'held_by_another_run', verdict: 'stop' },
  message: `another run holds ${what}; nothing was started`,
  hint: `wait for the other run to end, or stop it: ${hint}`,
})

test('free streams are locked, team by team, and unlocked team by team', async () => {
  await lock()
  expect(steps.splice(0)).toEqual(LOCKS)
  await unlockStreams(session, streams, teams[1]!)
  expect(steps).toEqual(UNLOCKS('2/patients', '2/forms'))
})

test('if other sessions lock streams, the error names all these streams and the first session, and every lock that was taken is released', async () => {
  locked = { '1/forms': 'first', '2/patients': 'second' }
  planned = { '2/forms': '9' }
  await expect(lock()).rejects.toMatchObject(
    refused('forms of north, patients of south, forms of south', 'the warehouse: stream of first'),
  )
  expect(steps.slice(-2)).toEqual(UNLOCKS('1/patients', '2/forms'))
})

test('if planned runs reserve streams, the error names the first of these runs', async () => {
  planned = { '1/forms': '8', '2/forms': '9' }
  const hint = 'intake-sync runs cancel 8'
  await expect(lock()).rejects.toMatchObject(refused('forms of north, forms of south', hint))
  expect(steps.slice(-4)).toEqual(UNLOCKS(...KEYS))
  expect(steps.filter((step) => `${step}`.startsWith('free'))).toEqual([])
})

test('runs whose process has ended are freed once every stream is locked; the error names the first that cannot be freed', async () => {
  planned = { '1/patients': '7', '1/forms': '8', '2/forms': '9' }
  abandoned = ['7', '8', '9']
  freed = ['7', '8', '9']
  await lock({ replaces: true })
  const asked = (run: string, key: string) => [`stream ${key}`, `abandoned? ${run} true`]
  expect(steps.splice(0)).toEqual([
    ...[...asked('7', '1/patients'), ...asked('8', '1/forms'), 'stream 2/patients', ...asked('9', '2/forms')],
    ...['free 7 1/patients true', 'free 8 1/forms true', 'free 9 2/forms true'],
  ])
  freed = ['7']
  const hint = 'intake-sync runs cancel 8'
  await expect(lock()).rejects.toMatchObject(refused('forms of north, forms of south', hint))
  expect(steps.slice(-7)).toEqual([
    ...['free 7 1/patients false', 'free 8 1/forms false', 'free 9 2/forms false'],
    ...UNLOCKS(...KEYS),
  ])
})
