/** What the readings that pages share ask for, and how long who cannot wait waits for them. */
import { beforeEach, expect, it, vi } from 'vitest'
import { openAnswers, openReadings, remembered } from '../../src/console/readings.ts'

const asked: unknown[] = []
const note =
  (name: string) =>
  async (...words: unknown[]) =>
    void asked.push([name, ...words])
vi.mock('../../src/operate/health/status.ts', () => ({
  readStatus: (...words: unknown[]) => note('status')(...words),
}))
vi.mock('../../src/operate/health/runs.ts', () => ({
  readRuns: (...words: unknown[]) => note('runs')(...words),
}))
vi.mock('../../src/operate/health/webhook-checks.ts', () => ({
  openWebhookChecks: (options: object) => ({ checksOf: options }),
}))
vi.mock('../../src/console/pages/overview.ts', () => ({
  readOverview: (...words: unknown[]) => note('overview')(...words),
}))
vi.mock('../../src/console/pages/streams.ts', () => ({
  readHistory: (...words: unknown[]) => note('history')(...words),
}))

let micros = 0
/** Each wait, with its signal; none ends by itself. */
const waits: { readonly milliseconds: number; readonly signal: AbortSignal }[] = []
const clock = {
  now: () => micros,
  sleep: (milliseconds: number, signal?: AbortSignal) => {
    waits.push({ milliseconds, signal: signal! })
    return new Promise<void>((_, reject) =>
      signal!.addEventListener('abort', () => reject(new Error('over'))),
    )
  },
}

beforeEach(() => {
  micros = 0
  asked.length = 0
  waits.length = 0
})

it('each reading asks for what the console was configured with', async () => {
  const bounded = { run: async (_bound: object, work: (db: string) => unknown) => await work('db') }
  const options = { url: 'postgres://w', inboxDays: 12, maxAgeHours: 34, checks: async () => [], clock }
  const readings = openReadings({ ...options, bounded } as never)
  await readings.overview.get()
  await readings.history.get()
  await readings.status.get()
  await readings.runs.get()
  expect(asked).toEqual([
    ['overview', 'db', { maxAgeHours: 34, webhookChecks: { checksOf: { inboxDays: 12 } } }],
    ['history', 'db'],
    ['status', 'postgres://w', 12],
    ['runs', 'postgres://w', 50],
  ])
})

it.each([
  ['status', 3_000],
  ['runs', 2_000],
] as const)('the reading %s is shown for %d ms', async (name, fresh) => {
  const readings = openReadings({ url: '', inboxDays: 1, maxAgeHours: 1, clock } as never)
  await readings[name].get()
  micros += fresh * 1_000
  await readings[name].get()
  expect(asked).toHaveLength(1)
  micros += 1_000
  await readings[name].get()
  expect(asked).toHaveLength(2)
})

it('a page that cannot wait waits as long as it may, only briefly where there is an older value, and never longer than the reading takes', async () => {
  const answers: ((value: string) => void)[] = []
  const read = () => new Promise<string>((resolve) => void answers.push(resolve))
  const shared = remembered(read, { freshMs: 1_000, clock })
  const within = async (milliseconds: number, value: string) => {
    const found = shared.within(milliseconds)
    answers.at(-1)!(value)
    expect(await found).toBe(value)
    micros += 2_000_000
  }
  await within(700, 'first')
  await within(700, 'second')
  await within(50, 'third')
  // A value of a minute ago is none that is shown.
  micros += 58_000_000
  await within(700, 'fourth')
  expect(waits.map(({ milliseconds }) => milliseconds)).toEqual([700, 120, 50, 700])
  expect(waits.map(({ signal }) => signal.aborted)).toEqual([true, true, true, true])
})

it('a reading that fails when nobody waits for it any more fails nobody, and the next is taken', async () => {
  const failing: ((error: Error) => void)[] = []
  const read = () => new Promise<string>((_, reject) => void failing.push(reject))
  const shared = remembered(read, { freshMs: 1_000, clock: { now: () => micros, sleep: async () => {} } })
  expect(await shared.within(700)).toBeNull()
  failing[0]!(new Error('away'))
  await new Promise((resolve) => setImmediate(resolve))
  const next = shared.get()
  expect(failing).toHaveLength(2)
  failing[1]!(new Error('still away'))
  await expect(next).rejects.toThrow('still away')
})

it('an answer is waited for as long as its page may, and no longer than for the answer', async () => {
  const { ask, forget } = openAnswers(clock)
  expect(await ask('key', async () => 'there', 700)).toBe('there')
  expect(waits.map(({ milliseconds, signal }) => [milliseconds, signal.aborted])).toEqual([[700, true]])
  // One that was begun before a change does not take the place of one that was begun after it.
  const answers: ((value: string) => void)[] = []
  const read = () => new Promise<string>((resolve) => void answers.push(resolve))
  const before = ask('key', read, 700)
  forget()
  const after = ask('key', read, 700)
  answers[0]!('before')
  expect(await before).toBe('before')
  const third = ask('key', read, 700)
  expect(answers).toHaveLength(2)
  answers[1]!('after')
  expect(await Promise.all([after, third])).toEqual(['after', 'after'])
})
