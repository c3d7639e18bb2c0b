/** How an inbox opens its connections, and how much it gives each of them at once. */
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { type InboxEvent, readEvent } from '../../../src/ingest/inbox/event.ts'
import { openInbox } from '../../../src/ingest/inbox/inbox.ts'
import { openNotices } from '../../../src/ingest/inbox/notices.ts'
import { openWriter } from '../../../src/ingest/inbox/writer.ts'

vi.mock('../../../src/ingest/inbox/writer.ts')
vi.mock('../../../src/ingest/inbox/notices.ts')

/** By writer, the groups that it was given and has not stored. */
let given: (readonly InboxEvent[])[][]

beforeEach(() => {
  given = []
  vi.mocked(openNotices)
    .mockReset()
    .mockReturnValue({ send: () => {}, close: async () => {} })
  vi.mocked(openWriter)
    .mockReset()
    .mockImplementation(async () => {
      const groups: (readonly InboxEvent[])[] = []
      given.push(groups)
      return {
        isConnected: true,
        get isFree() {
          return groups.length === 0
        },
        store: (events) => {
          groups.push(events)
          return new Promise(() => {})
        },
        ...{ renew: () => {}, expire: () => {}, close: async () => {} },
      }
    })
})

const clock = { now: () => 0, sleep: () => new Promise<void>(() => {}) }
const open = () =>
  openInbox({
    ...{ url: 'postgres://here', clock, logger: pino({ level: 'silent' }), watch: { committed: () => {} } },
    ...{ onStored: () => {}, limits: { storeMs: 1_600, statementMs: 1_400 } },
  })
const turns = async () => {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve))
}
const event = (id: number, bytes: number) =>
  readEvent(1, Buffer.from(JSON.stringify({ id: `e${id}` }).padEnd(bytes)))

test('two connections store and one notifies, each with the limit of a statement, not that of an event', async () => {
  await open()
  const options = { url: 'postgres://here', clock, statementMs: 1_400 }
  expect(vi.mocked(openWriter).mock.calls).toEqual(
    Array(2).fill([{ ...options, onChange: expect.any(Function) }]),
  )
  expect(vi.mocked(openNotices).mock.calls).toEqual([[options]])
})

test('a statement has five hundred events at most, and the other connection as many; the rest waits', async () => {
  const inbox = await open()
  for (let id = 0; id < 1_001; id++) void inbox.store(event(id, 20))
  await turns()
  const ids = (from: number) => Array.from({ length: 500 }, (_, at) => `e${from + at}`)
  expect(given.map((groups) => groups.map((group) => group.map(({ eventId }) => eventId)))).toEqual([
    [ids(0)],
    [ids(500)],
  ])
})

test.each([
  [1024 * 1024, 4, 4],
  [1024 * 1024 + 1, 4, 3],
])(
  'a statement has four mebibytes at most: with events of %i bytes, while %i wait, it gets %i',
  async (bytes, count, first) => {
    const inbox = await open()
    for (let id = 0; id < count; id++) void inbox.store(event(id, bytes))
    await turns()
    expect(given[0]!.map((group) => group.length)).toEqual([first])
  },
)

test.each([
  [[true, false], null],
  [[false, true], null],
  [[false, false], 'it is away'],
])(
  'at the start one of two connections is enough, whichever is tried last: with %o the trouble is %o',
  async (connected, trouble) => {
    const away = new IntakeError('it is away', { code: 'warehouse_unreachable', verdict: 'retry' })
    let opened = 0
    vi.mocked(openWriter).mockImplementation(async ({ onChange }) => {
      const isConnected = connected[opened++]!
      onChange(isConnected ? null : away)
      return {
        ...{ isConnected, isFree: isConnected, store: async () => new Map() },
        ...{ renew: () => {}, expire: () => {}, close: async () => {} },
      }
    })
    expect((await open()).trouble()).toBe(trouble)
  },
)
