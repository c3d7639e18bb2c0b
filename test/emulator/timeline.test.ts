import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { isStampable, readStamp, ServiceClock, stamp, Timeline, wallClock } from '../../src/emulator/clock.ts'

let clock: ServiceClock
let timeline: Timeline
let ran: string[]

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] })
  clock = new ServiceClock(wallClock, 60)
  timeline = new Timeline(clock, wallClock)
  ran = []
})
afterEach(() => {
  timeline.close()
  vi.useRealTimers()
})

const run = (name: string) => () => void ran.push(name)

it('runs each task once at its time and in order, sixty times faster at a scale of sixty', async () => {
  timeline.after(120_000, run('late'))
  timeline.after(60_000, run('early'))
  timeline.after(60_000, run('early too'))
  await vi.advanceTimersByTimeAsync(999)
  expect(ran).toEqual([])
  await vi.advanceTimersByTimeAsync(10)
  expect(ran).toEqual(['early', 'early too'])
  await vi.advanceTimersByTimeAsync(5000)
  expect(ran).toEqual(['early', 'early too', 'late'])
})

it('runs due tasks when the time is advanced, and tasks that these schedule', async () => {
  timeline.after(3_600_000, () => {
    ran.push('hour')
    timeline.after(0, run('at once'))
  })
  timeline.after(90_000_000, run('day'))
  await vi.advanceTimersByTimeAsync(1)
  clock.advance(3_600_000_000)
  await vi.advanceTimersByTimeAsync(5)
  expect(ran).toEqual(['hour', 'at once'])
})

it('counts time without the error of the clock, and adds up what it is advanced by', async () => {
  clock.skew = 3_600_000_000
  timeline.after(60_000, run('a minute'))
  await vi.advanceTimersByTimeAsync(1010)
  expect(ran).toEqual(['a minute'])
  timeline.after(3_600_000, run('an hour'))
  await vi.advanceTimersByTimeAsync(1)
  for (const expected of [[], [], ['an hour']]) {
    expect(ran.slice(1)).toEqual([])
    clock.advance(1_200_000_000)
    await vi.advanceTimersByTimeAsync(5)
    expect(ran.slice(1)).toEqual(expected)
  }
})

it('runs no cancelled task, and nothing after it is closed', async () => {
  const takeBack = timeline.after(60_000, run('taken back'))
  timeline.after(60_000, run('closed'))
  takeBack()
  takeBack()
  await vi.advanceTimersByTimeAsync(500)
  timeline.close()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(ran).toEqual([])
  expect(vi.getTimerCount()).toBe(0)
})

it('leaves no timer when it is closed, however far its next task is', async () => {
  timeline.after(60 * 86_400_000, run('in a day'))
  await vi.advanceTimersByTimeAsync(1)
  expect(vi.getTimerCount()).toBe(1)
  timeline.close()
  expect(vi.getTimerCount()).toBe(0)
  timeline.after(60_000, run('later'))
  await vi.advanceTimersByTimeAsync(5000)
  expect([ran, vi.getTimerCount()]).toEqual([[], 0])
})

it('takes back whichever task it is: the first, the last or one between, and of several at one time only that one', async () => {
  const named = ['a', 'b', 'c', 'd', 'e'].map((name, at) =>
    timeline.after(60_000 + (at % 4) * 60_000, run(name)),
  )
  for (const at of [0, 2, 3]) named[at]!()
  await vi.advanceTimersByTimeAsync(5000)
  expect(ran).toEqual(['e', 'b'])
  expect(vi.getTimerCount()).toBe(0)
})

it('takes back no other task than the one that was scheduled, and that only once', async () => {
  const first = timeline.after(60_000, run('first'))
  timeline.after(120_000, run('second'))
  const third = timeline.after(180_000, run('third'))
  await vi.advanceTimersByTimeAsync(1010)
  first()
  third()
  third()
  await vi.advanceTimersByTimeAsync(5000)
  expect(ran).toEqual(['first', 'second'])
})

it('a wait ends early with its signal, and leaves neither a timer nor a listener', async () => {
  const [stop, over] = [new AbortController(), AbortSignal.abort()]
  const listeners = () => getEventListeners(stop.signal, 'abort').length
  const ended: string[] = []
  const wait = (name: string, milliseconds: number, signal: AbortSignal) =>
    void wallClock.sleep(milliseconds, signal).then(() => ended.push(name))
  wait('short', 10, stop.signal)
  wait('long', 1e6, stop.signal)
  wait('over', 1e6, over)
  await vi.advanceTimersByTimeAsync(10)
  expect([ended.toSorted(), listeners(), vi.getTimerCount()]).toEqual([['over', 'short'], 1, 1])
  stop.abort()
  await vi.advanceTimersByTimeAsync(0)
  expect([ended.at(-1), listeners(), vi.getTimerCount()]).toEqual(['long', 0, 0])
})

it('knows only its own tasks: others run by the clock of their own service, and stay when it is closed', async () => {
  const otherClock = new ServiceClock(wallClock, 1)
  const other = new Timeline(otherClock, wallClock)
  other.after(2_000, run('theirs in two seconds'))
  other.after(3_600_000, run('theirs in an hour'))
  timeline.after(60_000, run('ours in a minute'))
  timeline.after(3_600_000, run('ours in an hour'))
  await vi.advanceTimersByTimeAsync(1_010)
  expect(ran).toEqual(['ours in a minute'])
  otherClock.advance(3_600_000_000)
  await vi.advanceTimersByTimeAsync(5)
  expect(ran.slice(1)).toEqual(['theirs in two seconds', 'theirs in an hour'])
  other.after(1_000, run('theirs after ours are closed'))
  timeline.close()
  await vi.advanceTimersByTimeAsync(1_010)
  expect(ran.slice(3)).toEqual(['theirs after ours are closed'])
  other.close()
})

it('needs a moment for each task', () => {
  for (const at of [Number.NaN, Number.POSITIVE_INFINITY])
    expect(() => timeline.at(at, run('never'))).toThrow(RangeError)
})

it('waits longer than a timer can', async () => {
  timeline.after(60 * 40 * 86_400_000, run('in forty days of ours'))
  await vi.advanceTimersByTimeAsync(39 * 86_400_000)
  expect(ran).toEqual([])
  await vi.advanceTimersByTimeAsync(2 * 86_400_000)
  expect(ran).toEqual(['in forty days of ours'])
})

it.each([
  ['2026-01-02T09:00:00Z', '2026-01-02T09:00:00Z'],
  ['2026-01-02T09:00:00.000001Z', '2026-01-02T09:00:00.000001Z'],
  ['2026-01-02 09:00:00+02:00', '2026-01-02T07:00:00Z'],
  ['2026-01-02T09:00:00.5-0130', '2026-01-02T10:30:00.500000Z'],
  ['2026-01-02T09:00', '2026-01-02T09:00:00Z'],
  ['2026-01-02T09:00:00,123456789z', '2026-01-02T09:00:00.123456Z'],
  ['2026-01-02T00:30:00+0100', '2026-01-01T23:30:00Z'],
])('the time %s is read to the microsecond', (text, expected) => {
  expect(stamp(readStamp(text)!)).toBe(expected)
})

it('a time of any of many days is stamped as the date that it is', () => {
  const start = Date.parse('2020-02-27T23:59:59.999Z')
  for (let day = 0; day < 4100; day += 1) {
    const time = start + day * 86_400_000
    expect(stamp(time * 1000 + 1)).toBe(new Date(time).toISOString().replace('999Z', '999001Z'))
  }
})

it.each(['2026-02-30T09:00:00Z', '2026-01-02', 'tomorrow', '2026-01-02T25:00:00Z', ''])(
  '"%s" is no time',
  (text) => {
    expect(readStamp(text)).toBeUndefined()
  },
)

it('a time can be stamped to the microsecond from the year 1 to the year 2254', () => {
  const [first, last] = [
    Date.parse('0001-01-01T00:00:00Z') * 1000,
    Date.parse('2255-01-01T00:00:00Z') * 1000 - 1,
  ]
  expect([first - 1000, first, last, last + 1].map(isStampable)).toEqual([false, true, true, false])
  expect([readStamp('0000-12-31T23:59:59Z'), readStamp('2255-01-01T00:00:00Z')]).toEqual([
    undefined,
    undefined,
  ])
})

it('the time of the service is in whole microseconds, the nearest ones, at any scale', () => {
  let now = 0
  const slow = new ServiceClock({ now: () => now, sleep: async () => {} }, 0.3)
  const times = Array.from({ length: 8 }, (_, at) => {
    now = at
    return slow.now()
  })
  expect(times).toEqual([0, 0, 1, 1, 1, 2, 2, 2])
  expect(slow.real(3)).toBe(10)
})

it('a task that ends the service is the last one, whatever it schedules', async () => {
  timeline.after(1_000, () => {
    ran.push('the end')
    timeline.close()
    timeline.after(0, run('one more'))
  })
  timeline.after(1_000, run('at the same time'))
  clock.advance(60_000_000)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(ran).toEqual(['the end'])
})
