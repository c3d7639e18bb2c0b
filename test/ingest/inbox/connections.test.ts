/** The connections that store events and announce them: how they are opened, when they are given up, and how they end. */
import { EventEmitter } from 'node:events'
import { beforeEach, expect, test, vi } from 'vitest'
import { readEvent } from '../../../src/ingest/inbox/event.ts'
import { openNotices } from '../../../src/ingest/inbox/notices.ts'
import { openWriter } from '../../../src/ingest/inbox/writer.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { scripted } from '../../support/scripted.ts'
import { eventOf } from '../support/ingest.ts'

vi.mock('../../../src/warehouse/connect.ts', async (load) => ({
  ...(await load<typeof import('../../../src/warehouse/connect.ts')>()),
  openSession: vi.fn(),
}))

let now: number
let steps: unknown[]
let clients: EventEmitter[]
let sleeps: Map<() => void, number>
/** Ends the statements in progress. */
let answers: ((failure?: Error) => void)[]
/** Attempts to connect that fail. */
let refusals: number

const failure = (code: string) => Object.assign(new Error('failed'), { code })
const turns = async () => {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
}
const clock = {
  now: () => now,
  sleep: (milliseconds: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const wake = () => void (sleeps.delete(wake) && resolve())
      sleeps.set(wake, milliseconds)
      signal?.addEventListener('abort', () => sleeps.delete(wake) && reject(signal.reason))
    }),
}
const sleeping = () => [...sleeps.values()]
const done = async () => {
  await turns()
  return steps.splice(0)
}
const pass = async () => {
  for (const wake of [...sleeps.keys()]) wake()
  return await done()
}

beforeEach(() => {
  ;[now, steps, clients, answers, refusals] = [0, [], [], [], 0]
  sleeps = new Map()
  vi.mocked(openSession).mockImplementation(async (options) => {
    const number = clients.length
    const client = Object.assign(new EventEmitter(), {
      query: () =>
        new Promise((resolve, reject) => {
          answers.push((reason) =>
            reason === undefined ? resolve({ rows: [[1, null, []]] }) : reject(reason),
          )
        }),
    })
    clients.push(client)
    steps.push(options)
    if (refusals > 0) {
      refusals -= 1
      throw failure('ECONNREFUSED')
    }
    const db = scripted((text) => {
      steps.push(`${number}: ${text}`)
      return []
    })
    return { client, db, close: async () => void steps.push(`close ${number}`) } as never
  })
})

async function open() {
  const changes: unknown[] = []
  const writer = await openWriter({
    ...{ url: 'postgres://here', clock, statementMs: 1_400 },
    onChange: (reason) => changes.push(reason === null ? null : reason.code),
  })
  const store = () => {
    const storing = writer.store([readEvent(1, eventOf())])
    return storing.then(
      (outcomes) => [...outcomes.values()].join(),
      ({ code }) => code,
    )
  }
  return { writer, store, changes: () => changes.splice(0) }
}

test('events are stored over a connection that waits for the disk, and shorter for a statement or a lock than for an answer', async () => {
  const { writer, store, changes } = await open()
  expect(await done()).toEqual([
    {
      ...{ url: 'postgres://here', purpose: 'ingest', connectTimeoutMs: 1_400, lockTimeoutMs: 1_000 },
      planner: expect.arrayContaining(['synchronous_commit=on', 'statement_timeout=1200']),
    },
  ])
  expect([writer.isConnected, writer.isFree, changes()]).toEqual([true, true, [null]])
  const stored = store()
  expect([writer.isConnected, writer.isFree]).toEqual([true, false])
  // Its answer shows whether the connection works.
  writer.renew()
  answers[0]!()
  expect([await stored, writer.isFree, await done()]).toEqual(['stored', true, []])
  writer.renew()
  expect([writer.isConnected, await done()]).toEqual([false, ['close 0', expect.anything()]])
  expect([writer.isConnected, changes()]).toEqual([true, [null]])
  await writer.close()
  expect([await done(), writer.isConnected, sleeping()]).toEqual([['close 1'], false, []])
})

test.each<[code: string, shown: string, isReplaced: boolean]>([
  ['ECONNRESET', 'warehouse_unreachable', true],
  ['57P01', 'shutdown', true],
  ['57P03', 'starting', true],
  ['40001', 'serialization', false],
  ['23514', 'warehouse', false],
])(
  'after a statement that failed with %s the connection is replaced: %s %s',
  async (code, shown, isReplaced) => {
    const { writer, store, changes } = await open()
    await done()
    changes()
    const storing = store()
    answers[0]!(failure(code))
    expect(await storing).toBe(shown)
    const steps = await done()
    expect([steps.length, changes()]).toEqual(isReplaced ? [2, [null]] : [0, []])
    expect(writer.isFree).toBe(true)
    await writer.close()
  },
)

test('a statement is given up after its time, with its connection, and no earlier', async () => {
  const { writer, store, changes } = await open()
  await done()
  changes()
  now = 5_000_000
  const late = store()
  writer.expire(6_399_999)
  expect(await done()).toEqual([])
  writer.expire(6_400_000)
  expect(await late).toBe('warehouse_slow')
  expect(await done()).toEqual(['close 0', expect.anything()])
  expect(changes()).toEqual(['warehouse_slow', null])
  // The next one has its own time, and what comes late from a connection that was given up changes nothing.
  const next = store()
  clients[0]!.emit('end')
  writer.expire(6_390_000)
  answers[1]!()
  expect([await next, await done(), writer.isFree]).toEqual(['stored', [], true])
  writer.expire(99_000_000)
  expect(writer.isFree).toBe(true)
  await writer.close()
})

test('a connection that ends is replaced after growing pauses, until the writer is closed', async () => {
  const { writer, changes } = await open()
  await done()
  changes()
  refusals = 3
  clients[0]!.emit('end')
  expect([(await done()).length, sleeping()]).toEqual([2, [50]])
  expect([(await pass()).length, sleeping()]).toEqual([1, [100]])
  expect([(await pass()).length, sleeping()]).toEqual([1, [200]])
  expect(changes()).toEqual(Array(3).fill('warehouse_unreachable'))
  expect([(await pass()).length, sleeping(), writer.isFree]).toEqual([1, [], true])
  refusals = 1
  clients.at(-1)!.emit('end')
  await done()
  await writer.close()
  expect([sleeping(), await done()]).toEqual([[], []])
})

test('notices need no disk; one covers all commits of a moment, and after a failure there is none for a second', async () => {
  const notices = openNotices({ url: 'postgres://here', clock, statementMs: 1_400 })
  for (let commits = 0; commits < 3; commits++) notices.send()
  const opened = {
    ...{ url: 'postgres://here', purpose: 'ingest notices', connectTimeoutMs: 1_400 },
    planner: ['synchronous_commit=off', 'statement_timeout=1400'],
  }
  const notice = (connection: number) => `${connection}: select pg_notify($1, '')`
  expect([await done(), sleeping()]).toEqual([[opened, notice(0)], [20]])
  // Those that came while it was sent have another.
  expect([await pass(), sleeping()]).toEqual([[notice(0)], [20]])
  expect([await pass(), sleeping()]).toEqual([[], []])
  notices.send()
  expect(await done()).toEqual([notice(0)])
  notices.send()
  const closing = notices.close()
  expect(await done()).toEqual([notice(0), 'close 0'])
  await closing
  refusals = 1
  const others = openNotices({ url: 'postgres://here', clock, statementMs: 1_400 })
  others.send()
  expect([await done(), sleeping()]).toEqual([[opened], [1_000]])
  others.send()
  expect(await pass()).toEqual([opened, notice(2)])
  await others.close()
  expect([await done(), sleeping()]).toEqual([['close 2'], []])
})
