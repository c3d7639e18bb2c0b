/** The connections of a drain, and the one that listens: how they are opened, given up and ended. */
import { EventEmitter } from 'node:events'
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import { openListener, openSessions } from '../../../src/ingest/drain/sessions.ts'
import { destroySocket, openSession, PLANNER } from '../../../src/warehouse/connect.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/warehouse/connect.ts', async (load) => ({
  ...(await load<typeof import('../../../src/warehouse/connect.ts')>()),
  openSession: vi.fn(),
  destroySocket: vi.fn(),
}))

let steps: unknown[]
let clients: EventEmitter[]
let said: unknown[]
let sleeps: Map<() => void, number>
/** What opening a connection waits for, or fails with. */
let opening: () => Promise<void>
/** The rows that answer a statement. */
let answer: () => never[] | Promise<never[]>

beforeEach(() => {
  ;[steps, clients, said, sleeps] = [[], [], [], new Map()]
  opening = async () => {}
  answer = () => []
  vi.mocked(openSession).mockImplementation(async (options) => {
    steps.push(options)
    await opening()
    const number = clients.length
    const client = Object.assign(new EventEmitter(), { number })
    clients.push(client)
    const db = scripted((text) => {
      steps.push(`${number}: ${text}`)
      return answer()
    })
    const close = async () => {
      steps.push(`close ${number}`)
      client.emit('end')
    }
    return { client, db, close } as never
  })
  vi.mocked(destroySocket).mockImplementation((client) => {
    steps.push(`destroy ${(client as unknown as { number: number }).number}`)
    client.emit('end')
  })
})

const clock = {
  now: () => 0,
  sleep: (milliseconds: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const wake = () => void (sleeps.delete(wake) && resolve())
      sleeps.set(wake, milliseconds)
      signal?.addEventListener('abort', () => sleeps.delete(wake) && reject(signal.reason))
    }),
}
const sleeping = () => [...sleeps.values()]
const done = async () => {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
  return steps.splice(0)
}
const pass = async () => {
  for (const wake of [...sleeps.keys()]) wake()
  return await done()
}
const OPENED = {
  ...{ url: 'postgres://here', purpose: 'drain' },
  planner: [...PLANNER.drain, 'idle_in_transaction_session_timeout=14000'],
}

test('a connection is used again, closed after a failure, and at the end those in use are destroyed, and none twice', async () => {
  const sessions = openSessions('postgres://here', clock)
  const [first, second, third] = [await sessions.take(), await sessions.take(), await sessions.take()]
  expect(await done()).toEqual([OPENED, OPENED, OPENED])
  sessions.release(first)
  expect([await sessions.take(), await done()]).toEqual([first, []])
  sessions.release(first)
  await sessions.discard(second)
  expect(await done()).toEqual(['close 1'])
  await sessions.close()
  expect(await done()).toEqual(['close 0', 'destroy 2'])
  clients[2]!.emit('end')
  await sessions.close()
  expect(await done()).toEqual([])
  expect(third).not.toBe(first)
})

test('work that takes a minute ends with its connection; work that fails leaves it to its owner', async () => {
  const sessions = openSessions('postgres://here', clock)
  const session = await sessions.take()
  await done()
  expect(await sessions.bounded(session, Promise.resolve('well'))).toBe('well')
  await expect(sessions.bounded(session, Promise.reject(new Error('refused')))).rejects.toThrow('refused')
  expect([await done(), sleeping()]).toEqual([[], []])
  const late = expect(sessions.bounded(session, new Promise(() => {}))).rejects.toMatchObject({
    code: 'warehouse_slow',
  })
  expect(sleeping()).toEqual([60_000])
  expect(await pass()).toEqual(['destroy 0'])
  await late
})

function listen() {
  let notices = 0
  const logger = pino(
    { base: null, timestamp: false },
    { write: (line: string) => void said.push(JSON.parse(line)) },
  )
  const onNotice = () => (notices += 1)
  const listener = openListener({ url: 'postgres://here', channel: 'changes', clock, logger, onNotice })
  return { listener, notices: () => notices }
}
const LISTENING = { url: 'postgres://here', purpose: 'listen changes' }

test('a listener looks once when it listens, at each notice, and again a second after its connection broke', async () => {
  const { listener, notices } = listen()
  expect([await done(), notices()]).toEqual([[LISTENING, '0: listen "changes"'], 1])
  clients[0]!.emit('notification')
  expect(notices()).toBe(2)
  clients[0]!.emit('end')
  expect([await done(), sleeping(), notices()]).toEqual([[], [1_000], 2])
  expect([await pass(), notices()]).toEqual([[LISTENING, '1: listen "changes"'], 3])
  await listener.close()
  expect([await done(), sleeping(), said]).toEqual([['close 1'], [], []])
})

test('a listener that cannot connect says so each time, and ends at once when it is closed', async () => {
  opening = () => Promise.reject(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }))
  const { listener, notices } = listen()
  expect([await done(), sleeping()]).toEqual([[LISTENING], [1_000]])
  expect(said).toEqual([
    {
      ...{ level: 40, channel: 'changes', code: 'warehouse_unreachable' },
      msg: 'cannot listen to the warehouse; polling',
    },
  ])
  await pass()
  expect([said.length, notices()]).toEqual([2, 0])
  await listener.close()
  expect([await done(), sleeping()]).toEqual([[], []])
})

test('a listener that is closed while it connects closes that connection, and does not listen', async () => {
  let connected = () => {}
  opening = () =>
    new Promise((resolve) => {
      connected = resolve
    })
  const { listener, notices } = listen()
  await done()
  const closing = listener.close()
  connected()
  await closing
  expect([await done(), notices(), sleeping()]).toEqual([['close 0'], 0, []])
})

test('a listener that is closed before Postgres answers, so that its statement fails, says nothing', async () => {
  let fail = (_: Error) => {}
  answer = () =>
    new Promise((_, reject) => {
      fail = reject
    })
  const { listener, notices } = listen()
  expect(await done()).toEqual([LISTENING, '0: listen "changes"'])
  const closing = listener.close()
  fail(new Error('Connection terminated'))
  await closing
  expect([await done(), notices(), sleeping(), said]).toEqual([['close 0', 'close 0'], 0, [], []])
})
