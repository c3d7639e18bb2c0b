/** Dead letters of one reason in the console: what a retry would do with each of them, and what it did. */
import { beforeEach, expect, it, vi } from 'vitest'
import { serveDeadLetters } from '../../../src/console/pages/dead-letters.ts'
import { discardDeadLetters, retryDeadLetters } from '../../../src/operate/retry-dead-letters.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/operate/retry-dead-letters.ts', async (original) => ({
  ...(await original()),
  ...{ discardDeadLetters: vi.fn(), retryDeadLetters: vi.fn() },
}))

// biome-ignore lint/suspicious/noExplicitAny: what a template shows
type Handler = (request: object, reply: object) => Promise<{ readonly data: any; readonly title: string }>

let waiting: object[]
/** Values of each look at what waits. */
let looks: unknown[][]
let audits: unknown[]
let routes: Map<string, Handler>

const PENDING = 'back in the inbox, to be drained by serve'
const ASKED = 'to be fetched by id, by serve or the next backfill'
const LOADED = 'loaded from the stored body'
const group = (stream: string) => ({ team: 'north', stream, reason: 'odd' })
const ask = (route: string, request: object) =>
  routes.get(route)!({ visitor: { login: 'ada', role: 'operator' }, ...request }, {})

beforeEach(() => {
  vi.clearAllMocks()
  looks = []
  audits = []
  routes = new Map()
  waiting = []
  const db = scripted((statement, values) => {
    if (statement.includes('into intake_ops.audit')) {
      audits.push(values)
      return []
    }
    looks.push([...values])
    return waiting
  })
  const readings = {
    ...{ share: () => ({ within: async () => null }), forget: () => {} },
    look: async (work: (of: unknown) => unknown) => await work(db),
  }
  const keep = (method: string) => (path: string, _: unknown, handler: Handler) =>
    routes.set(`${method} ${path}`, handler)
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  const shared = { options: { url: 'postgres://w' }, readings, show }
  serveDeadLetters({ get: keep('get'), post: keep('post') } as never, shared as never)
})
const deadLetter = (id: number, origin: string, record_id: string | null = 'r') => ({
  id,
  origin,
  record_id,
  total: 9,
})

it('a preview counts what would happen to each, by how it came and whether its record can be fetched', async () => {
  waiting = [
    ...[
      deadLetter(3, 'event:a'),
      deadLetter(8, 'event:b refetch'),
      deadLetter(4, 'run:1 page:1'),
      deadLetter(5, 'event:c'),
    ],
    ...[
      deadLetter(6, 'run:2 page:1', null),
      deadLetter(7, 'run:event: page:1'),
      deadLetter(2, 'event: refetch x'),
    ],
  ]
  const preview = (stream: string, action: string) =>
    ask('get /dead-letters/preview', { query: { ...group(stream), action } })
  const { data, title } = await preview('patients', 'retry')
  expect(title).toBe('Preview: retry')
  expect(data).toEqual({
    ...{ group: group('patients'), action: 'retry', count: 7, total: 9, upTo: 8 },
    ways: [
      [PENDING, 3],
      [ASKED, 3],
      [LOADED, 1],
    ],
  })
  // The service has no request for one entry of a log.
  for (const stream of ['webhook_deliveries', 'unknown'])
    expect((await preview(stream, 'retry')).data.ways).toEqual([
      [PENDING, 3],
      [LOADED, 4],
    ])
  expect((await preview('patients', 'discard')).data.ways).toEqual([])
  waiting = []
  expect((await preview('patients', 'retry')).data).toMatchObject({ count: 0, total: 0, upTo: 0, ways: [] })
  await expect(preview('patients', 'erase')).rejects.toMatchObject({ statusCode: 400 })
})

it('a group says whether its stream is known', async () => {
  const known = async (stream: string) =>
    (await ask('get /dead-letters/group', { query: group(stream) })).data.isKnown
  expect(await Promise.all(['patients', 'webhook_deliveries', 'inbox', 'x'].map(known))).toEqual([
    ...[true, true, false, false],
  ])
})

it('an action is done with each one up to the last that the preview counted, and its outcomes are counted', async () => {
  waiting = [4, 9, 11].map((id) => deadLetter(id, 'run:1 page:1'))
  vi.mocked(retryDeadLetters).mockResolvedValue([
    { id: 1, outcome: 'loaded' },
    { id: 2, outcome: 'pending' },
    { id: 3, outcome: 'not_possible', why: 'its body was removed' },
    { id: 4, outcome: 'loaded' },
    { id: 5, outcome: 'asked' },
    { id: 6, outcome: 'not_possible', why: 'it is too large' },
    { id: 7, outcome: 'not_possible', why: 'its body was removed' },
  ] as never)
  const done = (action: string) =>
    ask(`post /dead-letters/${action}`, { body: { ...group('forms'), upTo: '12' } })
  expect((await done('retry')).data).toEqual({
    ...{ group: group('forms'), action: 'retry', count: 3 },
    outcomes: [
      [LOADED, 2],
      [PENDING, 1],
      ['not possible: its body was removed', 2],
      [ASKED, 1],
      ['not possible: it is too large', 1],
    ],
  })
  expect(vi.mocked(retryDeadLetters).mock.calls[0]![1]).toEqual([4, 9, 11])
  expect((await done('discard')).data).toMatchObject({ outcomes: [['discarded', 3]], count: 3 })
  expect(vi.mocked(discardDeadLetters).mock.calls).toEqual([['db', [4, 9, 11]]])
  expect(looks.map((values) => values.filter((value) => value === 12).length)).toEqual([2, 2])
  expect(audits).toHaveLength(2)
})
