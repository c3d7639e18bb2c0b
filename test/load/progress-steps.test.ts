/** When the figures and lines of a run are stored, and with how many tries, without Postgres. */
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Figures, openRunProgress } from '../../src/load/run-progress.ts'
import type { BoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import { scripted } from '../support/scripted.ts'

const own = vi.hoisted(() => ({ opened: [] as unknown[], closed: 0, bounded: null as unknown }))

vi.mock('../../src/warehouse/bounded-queries.ts', async (original) => ({
  ...(await original<object>()),
  openBoundedQueries: (...options: unknown[]) => {
    own.opened.push(options)
    return own.bounded
  },
}))

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const FIGURES: Figures = {
  ...{ phase: 'fetch', pages: 1, requests: 2, throttled: 0, fetched: 3, expected: null, pages_left: null },
  ...{ counts: {}, permitted_rate: null },
}

/** `taken` are the figures and lines that were stored, in the order of the statements; a warehouse that is away fails before it stores anything. */
function open({ claimed = undefined as { sliceId: string; epoch: string } | undefined, isOwn = true } = {}) {
  const stored: unknown[] = []
  const looks: object[] = []
  const state = { away: 0, isLost: false }
  const db = scripted((statement, values) => {
    if (statement.startsWith('select epoch')) return state.isLost ? [{ epoch: 9 }] : []
    if (statement.startsWith('insert into intake_ops.run_progress'))
      for (const { team_id, stream, phase, pages } of JSON.parse(values[1] as string))
        stored.push(`${team_id}/${stream} ${phase} ${pages}`)
    if (statement.startsWith('insert into intake_ops.run_log')) {
      const lines = JSON.parse(values.find((value) => String(value).startsWith('[{')) as string)
      stored.push(
        lines.map(({ line, level, message }: Record<string, unknown>) => `${line} ${level} ${message}`),
      )
    }
    return []
  })
  const bounded = {
    async run(look: object, work: (db: unknown) => Promise<unknown>) {
      looks.push(look)
      state.away -= 1
      if (state.away >= 0) throw new Error('the warehouse is away')
      return await work(db)
    },
    close: async () => {
      own.closed += 1
    },
  } as unknown as BoundedQueries
  Object.assign(own, { opened: [], closed: 0, bounded })
  const progress = openRunProgress({
    ...{
      url: 'postgres://w',
      runId: '7',
      teams: [{ name: 'north', teamId: 1 }],
      logger: pino({ level: 'silent' }),
    },
    ...{ clock: { now: () => 0, sleep: async () => {} } },
    ...(claimed === undefined ? {} : { claimed }),
    ...(isOwn ? {} : { bounded }),
  })
  const seconds = (count: number) => vi.advanceTimersByTimeAsync(count * 1_000)
  const close = () => progress[Symbol.asyncDispose]()
  const taken = () => stored.splice(0)
  return { progress, looks, state, seconds, close, taken }
}

test('figures are stored after a second, then whenever they have changed, and after their end no more', async () => {
  const { progress, looks, seconds, close, taken } = open()
  const now = { ...FIGURES }
  let reads = 0
  progress.watch(1, 'forms', () => {
    reads += 1
    return { ...now }
  })
  await seconds(0.9)
  expect(looks).toEqual([])
  await seconds(0.2)
  expect(taken()).toEqual(['1/forms fetch 1'])
  await seconds(5)
  expect(taken()).toEqual([])
  Object.assign(now, { pages: 2 })
  await seconds(3)
  Object.assign(now, { phase: 'ended' })
  await seconds(3)
  expect(taken()).toEqual(['1/forms fetch 2', '1/forms ended 2'])
  const last = reads
  await seconds(5)
  await close()
  expect([reads, taken()]).toEqual([last, []])
  // Each with at most two seconds; without anything new, the warehouse is not asked.
  expect(looks).toEqual(Array(3).fill({ purpose: 'run progress', milliseconds: 2_000 }))
})

test('a connection of its own is one, and is closed in the end; that of a worker stays open', async () => {
  const alone = open()
  expect([own.opened, own.closed]).toEqual([[['postgres://w', 1]], 0])
  await alone.close()
  await alone.close()
  expect(own.closed).toBeGreaterThan(0)
  const shared = open({ isOwn: false })
  await shared.close()
  expect([own.opened, own.closed]).toEqual([[], 0])
})

test('the timer does not keep the process alive, and ends with the run', async () => {
  const set = vi.spyOn(globalThis, 'setInterval')
  const { close } = open()
  expect(set.mock.results.map(({ value }) => value.hasRef())).toEqual([false])
  expect(vi.getTimerCount()).toBe(1)
  await close()
  expect(vi.getTimerCount()).toBe(0)
})

test('a run of less than a second stores nothing, whatever it logged', async () => {
  const { progress, looks, seconds, close } = open()
  progress.watch(1, 'forms', () => FIGURES)
  progress.logger.error('short')
  await seconds(0.9)
  await close()
  expect(looks).toEqual([])
})

test.each([
  [2, 3, ['1/forms fetch 2', ['2 info last']]],
  [3, 3, []],
])('the last figures and lines are tried three times: %i times in vain', async (away, tries, expected) => {
  const { progress, looks, state, seconds, close, taken } = open()
  const now = { ...FIGURES }
  progress.watch(1, 'forms', () => ({ ...now }))
  progress.logger.info('first')
  await seconds(1)
  expect(taken()).toEqual(['1/forms fetch 1', ['1 info first']])
  Object.assign(now, { pages: 2 })
  progress.logger.info('last')
  const before = looks.length
  state.away = away
  await close()
  expect([looks.length - before, taken()]).toEqual([tries, expected])
})

test('while the warehouse is away, the newest 300 lines are kept, in their order', async () => {
  const { progress, state, seconds, close, taken } = open()
  state.away = 2
  for (let line = 1; line <= 310; line++) progress.logger.info(`line ${line}`)
  await seconds(1)
  for (let line = 311; line <= 320; line++) progress.logger.warn(`line ${line}`)
  await seconds(2)
  const [lines] = taken() as [string[]]
  expect([lines.length, lines[0], lines.at(-1)]).toEqual([300, '21 info line 21', '320 warn line 320'])
  await close()
})

test('a worker stores figures and lines as long as it has its slice, and nothing once another has it', async () => {
  const { progress, state, seconds, close, taken } = open({ claimed: { sliceId: '1', epoch: '1' } })
  let pages = 1
  progress.watch(1, 'forms', () => ({ ...FIGURES, pages }))
  progress.note({ team: 'north', stream: 'forms' }, 'began')
  await seconds(1)
  expect(taken()).toEqual(['1/forms fetch 1', ['1 info began']])
  state.isLost = true
  pages = 2
  progress.logger.info('too late')
  await seconds(1)
  await close()
  expect(taken()).toEqual([])
})

test('nothing is stored of a run that may store nothing, and its lines go to its own log', async () => {
  const lines: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void lines.push(line) })
  Object.assign(own, { opened: [] })
  const progress = openRunProgress({
    ...{
      url: 'postgres://w',
      runId: null,
      teams: [],
      logger,
      clock: { now: () => 0, sleep: async () => {} },
    },
  })
  progress.watch(1, 'forms', () => expect.fail('figures were read'))
  progress.note({ team: 'north', stream: 'forms' }, 'a note')
  progress.logger.info('a line')
  await vi.advanceTimersByTimeAsync(5_000)
  await progress[Symbol.asyncDispose]()
  expect([own.opened, lines.length, vi.getTimerCount()]).toEqual([[], 1, 0])
})
