/** The one statement that stores a group of events: what it is given, in which order, and what its answer means. */
import { beforeEach, expect, test, vi } from 'vitest'
import { type InboxEvent, readEvent, type StoreOutcome } from '../../../src/ingest/inbox/event.ts'
import { openWriter, type Writer } from '../../../src/ingest/inbox/writer.ts'
import { openSession } from '../../../src/warehouse/connect.ts'

vi.mock('../../../src/warehouse/connect.ts', async (load) => ({
  ...(await load<typeof import('../../../src/warehouse/connect.ts')>()),
  openSession: vi.fn(),
}))

interface Statement {
  readonly name: string
  readonly rowMode: string
  readonly values: readonly unknown[]
}

let given: Statement[]
let answer: readonly [count: number, keys: string | null, removed: readonly number[]]
let writer: Writer

beforeEach(async () => {
  ;[given, answer] = [[], [0, null, []]]
  vi.mocked(openSession).mockResolvedValue({
    client: {
      once: () => {},
      query: async (statement: Statement) => {
        given.push(statement)
        return { rows: [answer] }
      },
    },
    close: async () => {},
  } as never)
  writer = await openWriter({
    ...{ url: 'postgres://here', statementMs: 1_400, onChange: () => {} },
    clock: { now: () => 0, sleep: async () => {} },
  })
})

const event = (teamId: number, body: string) => readEvent(teamId, Buffer.from(body))
const bytesOf = (bytes: unknown) => (bytes as Buffer).toString('utf8')

test('the connection has the planner settings of this statement, and none of another', () => {
  expect(vi.mocked(openSession).mock.lastCall![0].planner).toEqual([
    ...['enable_seqscan=off', 'jit=off'],
    ...['plan_cache_mode=force_generic_plan', 'enable_hashjoin=off', 'enable_mergejoin=off'],
    ...['synchronous_commit=on', 'statement_timeout=1200'],
  ])
})

test('events go in the order of their hashes, the same bytes in that of their teams, however they arrived', async () => {
  const bodies = ['{"id":"a"}', '{"id":"bb"}', '{"id":"ccc"}']
  const events = [2, 10, 1].flatMap((teamId) => bodies.map((body) => event(teamId, body)))
  await writer.store(events)
  await writer.store([...events].reverse())
  expect(given[1]).toEqual(given[0])
  const inOrder = [...events].sort((a, b) => {
    if (a.bodyHash !== b.bodyHash) return a.bodyHash < b.bodyHash ? -1 : 1
    return a.teamId - b.teamId
  })
  const [all, hashes, teams, ids, , , , starts, lengths, count] = given[0]!.values
  expect(bytesOf(all)).toBe(inOrder.map(({ body }) => body.toString()).join(''))
  expect((hashes as Buffer).toString('hex')).toBe(inOrder.map(({ bodyHash }) => bodyHash).join(''))
  expect(teams).toBe(`{${inOrder.map(({ teamId }) => teamId).join()}}`)
  expect(ids).toBe(`{${inOrder.map(({ eventId }) => `"${eventId}"`).join()}}`)
  // Bytes count from 1.
  let next = 1
  const places = inOrder.map(({ body }) => {
    next += body.length
    return next - body.length
  })
  expect([starts, lengths, count]).toEqual([
    `{${places.join()}}`,
    `{${inOrder.map(({ body }) => body.length).join()}}`,
    9,
  ])
  expect([given[0]!.name, given[0]!.rowMode]).toEqual(['store events', 'array'])
})

test('each name is in its own place, whatever it contains; what an event lacks is null, and "null" a text', async () => {
  const named = { id: 'a"b\\c', event_type: '{x,y}', source: 'null', data: { id: 'é "r"' } }
  const body = JSON.stringify(named)
  await writer.store([event(7, body)])
  expect(given[0]!.values.slice(2)).toEqual([
    ...['{7}', '{"a\\"b\\\\c"}', '{"{x,y}"}', '{"null"}', '{"é \\"r\\""}'],
    ...['{1}', `{${Buffer.byteLength(body)}}`, 1],
  ])
  await writer.store([event(7, '{}')])
  const [, , , id, ...names] = given[1]!.values.slice(0, 7)
  expect([id, names]).toEqual([
    expect.stringMatching(/^\{"unreadable:[0-9a-f]{64}"\}$/),
    Array(3).fill('{NULL}'),
  ])
})

test.each<[string, typeof answer | 'first', readonly StoreOutcome[]]>([
  ['all are stored', [4, null, []], ['stored', 'stored', 'stored', 'stored']],
  ['none is stored', [0, null, []], ['duplicate', 'duplicate', 'duplicate', 'duplicate']],
  [
    'none is stored, and a team was removed',
    [0, null, [2]],
    ['duplicate', 'duplicate', 'removed', 'duplicate'],
  ],
  [
    'only the first is stored, and a team was removed',
    'first',
    ['stored', 'duplicate', 'removed', 'duplicate'],
  ],
])('what the answer means for each event: %s', async (_, reply, expected) => {
  const events: InboxEvent[] = [event(1, '{"id":"a"}'), event(1, '{"id":"b"}'), event(2, '{"id":"a"}')]
  events.push(event(3, '{"id":"a"}'))
  // A key is of a team: the same bytes of another team are another event.
  answer = reply === 'first' ? [1, `1:${events[0]!.bodyHash}`, [2]] : reply
  const outcomes = await writer.store(events)
  expect(events.map((each) => outcomes.get(each))).toEqual(expected)
})
