/** The buffered counts of events: one write at a time, with its limit, and nothing that a process would wait for. */
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openReceived } from '../../../src/operate/health/received.ts'
import type { BoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { scripted } from '../../support/scripted.ts'

const said: Record<string, unknown>[] = []
const logger = pino(
  { base: null, timestamp: false },
  { write: (line: string) => void said.push(JSON.parse(line)) },
)
const turns = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** Each write waits until the test ends it. */
function openScene() {
  const limits: unknown[] = []
  const written: unknown[] = []
  const ends: ((error?: Error) => void)[] = []
  const run: BoundedQueries['run'] = async (options, work) => {
    limits.push(options)
    await new Promise<void>((resolve, reject) => {
      ends.push((error) => (error === undefined ? resolve() : reject(error)))
    })
    return await work(scripted((_, values) => void written.push(values)))
  }
  const received = openReceived({ bounded: { run } as BoundedQueries, logger })
  const end = async (error?: Error) => {
    ends.shift()!(error)
    await turns()
  }
  return { received, limits, written, end, waiting: () => ends.length }
}

beforeEach(() => {
  said.length = 0
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(() => void vi.useRealTimers())

test('a write that takes longer than two seconds is followed by the next, which has what arrived meanwhile', async () => {
  const { received, limits, written, end, waiting } = openScene()
  for (const duplicate of [false, true, false]) received.note('north', duplicate)
  received.note('south', true)
  vi.advanceTimersByTime(1_999)
  await turns()
  expect(waiting()).toBe(0)
  vi.advanceTimersByTime(1)
  await turns()
  received.note('north', false)
  vi.advanceTimersByTime(4_000)
  await turns()
  expect(waiting()).toBe(1)
  await end()
  expect(waiting()).toBe(1)
  await end()
  expect(written).toEqual([
    [
      ['north', 'south'],
      [2, 0],
    ],
    [['north'], [1]],
  ])
  expect(limits).toEqual(Array(2).fill({ purpose: 'event counts', milliseconds: 2_000 }))
  // Nothing has arrived since.
  vi.advanceTimersByTime(2_000)
  await turns()
  expect(limits).toHaveLength(2)
  await received.close()
})

test('closing waits for the write that is under way, and for the last one; then there is none', async () => {
  const { received, written, end } = openScene()
  received.note('north', false)
  vi.advanceTimersByTime(2_000)
  await turns()
  received.note('north', false)
  let isClosed = false
  const closing = received.close().then(() => {
    isClosed = true
  })
  await end()
  expect([isClosed, written.length]).toEqual([false, 1])
  await end()
  await closing
  expect(written).toEqual(Array(2).fill([['north'], [1]]))
  expect(vi.getTimerCount()).toBe(0)
})

test('each outage is reported once, and its counts are added to those that follow', async () => {
  const { received, written, end } = openScene()
  const away = () => Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
  const writes = async (error?: Error) => {
    for (const team of ['north', 'south', 'south']) received.note(team, false)
    vi.advanceTimersByTime(2_000)
    await turns()
    await end(error)
  }
  for (const error of [away(), away(), undefined, away()]) await writes(error)
  const line = { level: 40, code: 'warehouse_unreachable', msg: 'counts of events are delayed' }
  expect([written, said]).toEqual([
    [
      [
        ['north', 'south'],
        [3, 6],
      ],
    ],
    [line, line],
  ])
  const closing = received.close()
  await turns()
  await end()
  await closing
  expect(written.at(-1)).toEqual([
    ['north', 'south'],
    [1, 2],
  ])
})

test('a process may end while counts are buffered', async () => {
  vi.useRealTimers()
  const set = vi.spyOn(globalThis, 'setInterval')
  const { received } = openScene()
  expect(set.mock.results.map(({ value }) => (value as NodeJS.Timeout).hasRef())).toEqual([false])
  set.mockRestore()
  await received.close()
})
