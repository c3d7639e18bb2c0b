/** The defaults of a drain, and the options that it passes on to its parts. */
import { beforeEach, expect, test, vi } from 'vitest'
import { openUsualFields } from '../../../src/ingest/drain/current.ts'
import type { DrainOptions } from '../../../src/ingest/drain/drain.ts'
import { isAnyDue, takeDue } from '../../../src/ingest/drain/inbox-rows.ts'
import { prepare } from '../../../src/ingest/drain/load-events.ts'
import { openSearchStart } from '../../../src/ingest/drain/search-start.ts'
import { openListener, openSessions } from '../../../src/ingest/drain/sessions.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { batchOf, openRounds } from './rounds.ts'

vi.mock('../../../src/ingest/drain/current.ts')
vi.mock('../../../src/ingest/drain/sessions.ts')
vi.mock('../../../src/ingest/drain/load-events.ts')
vi.mock('../../../src/ingest/drain/search-start.ts')
vi.mock('../../../src/warehouse/connect.ts')
vi.mock('../../../src/ingest/drain/inbox-rows.ts', async (load) => ({
  ...(await load<typeof import('../../../src/ingest/drain/inbox-rows.ts')>()),
  takeDue: vi.fn(),
  isAnyDue: vi.fn(),
}))

const USUAL = { of: async () => new Map() }
const TEAMS = [3, 1].map((teamId) => ({ name: `team ${teamId}`, teamId }))
let scene: ReturnType<typeof openRounds>
let looked: unknown[]

beforeEach(() => {
  scene = openRounds()
  looked = []
  vi.mocked(openUsualFields).mockReset().mockReturnValue(USUAL)
  vi.mocked(takeDue).mockReset().mockResolvedValue([])
})
const open = (options: { readonly [Key in keyof DrainOptions]?: DrainOptions[Key] | undefined }) =>
  scene.open({ teams: TEAMS, ...options } as Partial<DrainOptions>)

test('each search begins at the search start, covers all teams, and takes a thousand events', async () => {
  const startOf = (teamId: number) => `${teamId}7`
  vi.mocked(openSearchStart).mockReturnValue({ search: (find) => find(startOf), reset: () => {} })
  vi.mocked(prepare).mockImplementation(async (_, loading, take) => {
    looked.push(loading)
    await take()
    return null
  })
  const drain = open({ batch: undefined, pollMs: undefined, backoffMs: undefined })
  await scene.done()
  expect(vi.mocked(takeDue).mock.calls).toEqual([
    [expect.objectContaining({ name: 's1' }), [3, 1], 1_000, startOf],
  ])
  expect(looked).toEqual([
    { teamIds: [3, 1], apiVersionOf: expect.any(Function), usual: USUAL, backoffMs: [1_000, 10_000, 60_000] },
  ])
  // Without a notice it looks again after a second.
  expect(scene.sleeping()).toEqual([1_000])
  await drain.close()
})

test('its parts share its warehouse and one clock, and a failed event waits as long as the caller says', async () => {
  const drain = open({ backoffMs: [5] })
  await scene.done()
  expect(scene.loading.backoffMs).toEqual([5])
  const { calls: listeners } = vi.mocked(openListener).mock
  const { clock } = listeners.at(-1)![0]
  expect(vi.mocked(openSessions).mock.lastCall).toEqual(['postgres://here', clock])
  expect(vi.mocked(openSearchStart).mock.lastCall).toEqual([clock])
  expect(vi.mocked(openUsualFields).mock.lastCall).toEqual([clock])
  await drain.close()
})

test('two batches are in flight, and a third is looked for once one of them is written; more if its caller wants more', async () => {
  const searches = () =>
    scene.done().then((steps) => steps.filter((step) => step.startsWith('search')).length)
  scene.found = [batchOf(1, 2), batchOf(3, 4), batchOf(5, 6), batchOf(7, 8)]
  const drain = open({ workers: undefined })
  expect(await searches()).toBe(2)
  scene.ends.get('1,2')!()
  expect(await searches()).toBe(1)
  for (const name of ['3,4', '5,6', '7,8']) {
    scene.ends.get(name)!()
    await scene.done()
  }
  await drain.close()
  scene = openRounds()
  scene.found = [batchOf(1, 2), batchOf(3, 4), batchOf(5, 6), batchOf(7, 8)]
  const other = open({ workers: 3 })
  expect(await searches()).toBe(3)
  for (const name of ['1,2', '3,4', '5,6', '7,8']) {
    scene.ends.get(name)!()
    await scene.done()
  }
  await other.close()
})

test('whoever waits until nothing is due makes the drain search at once, and asks about all teams in a session of its own', async () => {
  const closed: string[] = []
  const own = { [Symbol.asyncDispose]: async () => void closed.push('closed') }
  vi.mocked(openSession).mockResolvedValue(own as never)
  vi.mocked(isAnyDue).mockResolvedValueOnce(true).mockResolvedValue(false)
  const drain = open({})
  await scene.done()
  let isIdle = false
  const idle = drain.idle().then(() => {
    isIdle = true
  })
  // Without the end of a pause.
  expect(await scene.done()).toEqual(['take s1', 'search in s1', 'release s1'])
  expect([isIdle, closed]).toEqual([false, []])
  await scene.pass()
  await idle
  expect([isIdle, closed]).toEqual([true, ['closed']])
  expect(vi.mocked(openSession).mock.calls).toEqual([[{ url: 'postgres://here', purpose: 'drain idle' }]])
  expect(vi.mocked(isAnyDue).mock.calls).toEqual(Array(2).fill([own, [3, 1]]))
  await drain.close()
})
