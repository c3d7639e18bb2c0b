/** Pages whose readings are not there yet: which of them a page waits for, how long, and from which its text is made. */
import { expect, it } from 'vitest'
import { serveDeadLetters } from '../../../src/console/pages/dead-letters.ts'
import { serveInbox } from '../../../src/console/pages/inbox.ts'
import { serveInsights } from '../../../src/console/pages/insights.ts'
import { serveQuestions } from '../../../src/console/pages/questions.ts'
import { serveRuns } from '../../../src/console/pages/runs.ts'
import { servePages } from '../../../src/console/pages/state.ts'
import { systemClock } from '../../../src/core/clock.ts'

interface Shown {
  readonly view: string
  readonly title: string
  readonly waits: boolean
  readonly from?: readonly unknown[]
}
type Handler = (request: object, reply: object) => Promise<Shown>

/** What the page shows where each reading, in the order in which it is taken, has this value. */
async function shown(path: string, values: readonly (unknown[] | null)[]) {
  const routes = new Map<string, Handler>()
  const app = {
    get: (name: string, _: unknown, handler: Handler) => routes.set(name, handler),
    post: () => {},
  }
  const named = { overview: 0, runs: 0, checks: 0, server: 1 }
  const patience: number[] = []
  const reading = (value: unknown) => ({
    within: async (milliseconds: number) => {
      patience.push(milliseconds)
      return value
    },
  })
  // Each kind of page takes its own readings in the order of its code.
  let taken = 0
  const readings = {
    ...Object.fromEntries(Object.entries(named).map(([name, at]) => [name, reading(values[at])])),
    share: () => reading(values[taken++]),
    look: async () => values[0],
  }
  const options = {
    ...{ clock: systemClock, settings: [], version: '1', inboxDays: 1, metricsUrl: 'http://127.0.0.1:9/' },
    retention: { historyDays: 1, runDays: 1 },
  }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  const serve = { '/': servePages, '/health': servePages, '/runs': serveRuns, '/inbox': serveInbox }[path]
  const others = { '/dead-letters': serveDeadLetters, '/questions': serveQuestions }[path]
  ;(serve ?? others)!(app as never, { options, readings, show } as never)
  const { view, title, waits, from } = await routes.get(path)!({ query: {} }, {})
  expect(patience).toEqual(patience.map(() => 700))
  return { view, title, waits, from }
}

const [a, b] = [['a'], ['b']]

it.each([
  ['/', [a], { view: 'overview', title: 'Overview', waits: false, from: [a] }],
  ['/', [null], { view: 'overview', title: 'Overview', waits: true, from: [null] }],
  ['/runs', [a], { view: 'runs', title: 'Runs', waits: false, from: [a] }],
  ['/runs', [null], { view: 'runs', title: 'Runs', waits: true, from: [null] }],
  ['/dead-letters', [a], { view: 'dead-letters', title: 'Dead letters', waits: false, from: [a] }],
  ['/dead-letters', [null], { view: 'dead-letters', title: 'Dead letters', waits: true, from: [null] }],
  ['/health', [a, b], { view: 'health', title: 'Health', waits: false, from: [a, b] }],
  ['/health', [a, null], { view: 'health', title: 'Health', waits: true, from: [a, null] }],
  ['/health', [null, b], { view: 'health', title: 'Health', waits: true, from: [null, b] }],
  ['/inbox', [a], { view: 'inbox', title: 'Inbox', waits: false, from: [null, a] }],
  ['/inbox', [null], { view: 'inbox', title: 'Inbox', waits: true, from: [null, null] }],
  // Counts of answers may come later; a reader may filter, so no text is shared.
  ['/questions', [[], null, { drift: [], views: [] }], { waits: false, from: undefined }],
  ['/questions', [null, null, { drift: [], views: [] }], { waits: true, from: undefined }],
  ['/questions', [[], new Map(), null], { waits: true, from: undefined }],
] as const)('%s, of %j', async (path, values, expected) => {
  expect(await shown(path, values as never)).toMatchObject(expected)
})

it('insights wait for the views of analysts, which are read once a minute for all readers', async () => {
  let micros = 0
  const looks: ((value: object) => void)[] = []
  const look = () => new Promise<object>((resolve) => void looks.push(resolve))
  const patience: number[] = []
  const sleep = async (milliseconds: number) => void patience.push(milliseconds)
  const pages: { waits: boolean; from: unknown[]; data: { found: unknown; within: readonly string[] } }[] = []
  const show = async (_request: unknown, _reply: unknown, page: never) => void pages.push(page)
  let handler: Handler = async () => ({}) as Shown
  const app = { get: (_path: string, _: unknown, own: Handler) => (handler = own) }
  const clock = { now: () => micros, sleep }
  serveInsights(app as never, { options: { clock }, readings: { look }, show } as never)
  await handler({}, {})
  const found = { forms: [] }
  looks[0]!(found)
  await new Promise((resolve) => setImmediate(resolve))
  for (const later of [0, 60_000_000]) {
    micros = later
    await handler({}, {})
  }
  expect(pages.map(({ waits, from, data }) => [waits, from, data.found])).toEqual([
    [true, [null], null],
    [false, [found], found],
    [false, [found], found],
  ])
  expect([looks.length, patience[0]]).toEqual([1, 700])
  expect(pages[0]!.data.within).toEqual([
    ...['within an hour', 'within 6 hours', 'within a day', 'within 3 days', 'within a week', 'later'],
  ])
  micros += 1_000
  await handler({}, {})
  expect(looks).toHaveLength(2)
})
