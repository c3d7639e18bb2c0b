/** The page of streams: ten teams at once, and what it waits for. */
import { expect, it } from 'vitest'
import { servePages } from '../../../src/console/pages/state.ts'

interface Shown {
  readonly view: string
  readonly title: string
  readonly waits: boolean
  readonly from: readonly unknown[]
  readonly data: {
    readonly teams: readonly string[]
    readonly parts: readonly string[]
    readonly maxAgeSeconds: number
    of(team: string, stream: string): unknown
  }
}
type Handler = (request: object, reply: object) => Promise<Shown>

const names = (count: number) => Array.from({ length: count }, (_, at) => `team-${10 + at}`)

/** What the page shows of so many teams; a reading that is not there yet is null. */
async function shown(count: number | null, from?: string, history: readonly object[] | null = []) {
  const routes = new Map<string, Handler>()
  const app = { get: (path: string, _: unknown, handler: Handler) => routes.set(path, handler) }
  const patience: number[] = []
  const reading = (value: unknown) => ({
    within: async (milliseconds: number) => {
      patience.push(milliseconds)
      return value
    },
  })
  const status = count === null ? null : { teams: names(count).map((team) => ({ team })), streams: [] }
  const readings = { status: reading(status), history: reading(history) }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  servePages(app as never, { options: { maxAgeHours: 26 }, readings, show } as never)
  const page = await routes.get('/streams')!({ query: from === undefined ? {} : { from } }, {})
  expect(patience).toEqual([700, 700])
  expect(page.from).toEqual([status, history])
  return page
}

it.each([
  ['none', 0, undefined, [0, 0], []],
  ['one', 1, undefined, [0, 1], []],
  ['as many as one page has', 10, undefined, [0, 10], []],
  ['one more', 11, undefined, [0, 10], [10, 20]],
  ['the last page of two', 11, 'team-20', [10, 11], [10, 20]],
  ['two whole pages', 20, 'team-20', [10, 20], [10, 20]],
  ['three pages', 21, 'team-20', [10, 20], [10, 20, 30]],
  ['any team, as the first of those that follow', 21, 'team-13', [3, 13], [10, 20, 30]],
  ['a team that is not there', 11, 'nobody', [0, 10], [10, 20]],
])('of teams, %s', async (_, count, from, [first, end], parts) => {
  const { data, ...page } = await shown(count, from)
  expect(page).toMatchObject({ view: 'streams', title: 'Streams', waits: false })
  expect(data.teams).toEqual(names(count).slice(first, end))
  expect(data.parts).toEqual(parts.map((at) => `team-${at}`))
  expect(data.maxAgeSeconds).toBe(93_600)
})

it('waits for the figures and for the runs, and shows those of the team and stream', async () => {
  const waits = []
  for (const [count, history] of [
    [null, []],
    [1, null],
    [null, null],
    [1, []],
  ] as const)
    waits.push((await shown(count, undefined, history)).waits)
  expect(waits).toEqual([true, true, true, false])
  const history = ['a', 'b'].flatMap((team) => ['forms', 'packets'].map((stream) => ({ team, stream })))
  const { data } = await shown(1, undefined, history)
  expect([data.of('b', 'forms'), data.of('a', 'packets'), data.of('a', 'patients')]).toEqual([
    history[2],
    history[1],
    null,
  ])
  expect((await shown(1, undefined, null)).data.of('a', 'forms')).toBeNull()
})
