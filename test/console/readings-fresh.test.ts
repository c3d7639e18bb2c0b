/** How long each reading of the warehouse is shown before it is read again, and what one reading may take. */
import { expect, it, vi } from 'vitest'
import { openReadings } from '../../src/console/readings.ts'

const never = new Promise<void>(() => {})

function openScene() {
  let micros = 0
  let looks = 0
  const bounds: object[] = []
  const signals: AbortSignal[] = []
  const bounded = {
    run: async (bound: object) => {
      bounds.push(bound)
      looks += 1
      return { bytes: looks }
    },
  }
  const readings = openReadings({
    ...{ url: 'postgres://nowhere', inboxDays: 30, maxAgeHours: 26 },
    ...{
      bounded,
      clock: {
        now: () => micros,
        sleep: async (milliseconds: number) => void (milliseconds > 0 && (await never)),
      },
    },
    checks: async (signal: AbortSignal) => {
      signals.push(signal)
      return []
    },
  } as unknown as Parameters<typeof openReadings>[0])
  const pass = (milliseconds: number) => {
    micros += milliseconds * 1_000
  }
  return { readings, pass, bounds, signals, looks: () => looks }
}

it.each([
  ['overview', 3_000],
  ['history', 3_000],
  ['server', 30_000],
] as const)('the reading %s is shown for %d ms', async (name, fresh) => {
  const { readings, pass, bounds, looks } = openScene()
  await readings[name].get()
  pass(fresh)
  await readings[name].get()
  expect(looks()).toBe(1)
  pass(1)
  await readings[name].get()
  expect(looks()).toBe(2)
  // None takes more than 25 seconds.
  expect(bounds).toEqual(Array(2).fill({ purpose: 'console', milliseconds: 25_000 }))
})

it('checks, which ask the service, are made once a minute, and have a minute each; when they were made is shown', async () => {
  const { readings, pass, signals } = openScene()
  const timeout = vi.spyOn(AbortSignal, 'timeout')
  const before = Date.now()
  const first = await readings.checks.get()
  expect(first.at.getTime()).toBeGreaterThanOrEqual(before)
  pass(60_000)
  expect(await readings.checks.get()).toBe(first)
  pass(1)
  await readings.checks.get()
  expect([signals.length, timeout.mock.calls]).toEqual([2, [[60_000], [60_000]]])
  timeout.mockRestore()
})

it('a reading that a page adds has a time of its own; after a change all of them, and answers, are read again', async () => {
  const { readings, pass, looks } = openScene()
  let own = 0
  const shared = readings.share(async () => ++own, 500)
  // An answer that is late, and so waits for whoever asks next.
  const answers: ((value: string) => void)[] = []
  const read = () => new Promise<string>((resolve) => void answers.push(resolve))
  const ask = () => readings.ask('key', read, 0)
  await Promise.all([shared.get(), readings.overview.get(), readings.server.get()])
  pass(500)
  expect([await shared.get(), looks()]).toEqual([1, 2])
  pass(1)
  expect(await shared.get()).toBe(2)
  expect(await ask()).toBeNull()
  readings.forget()
  answers[0]!('before the change')
  await Promise.all([shared.get(), readings.overview.get(), readings.server.get()])
  expect([own, looks(), await ask(), answers.length]).toEqual([3, 4, null, 2])
})

it('the size that the database had first is that of the first reading, with its time', async () => {
  const { readings, pass } = openScene()
  pass(1_000)
  expect(await readings.server.get()).toEqual({
    ...{ bytes: 1, at: new Date(1_000) },
    first: { bytes: 1, at: new Date(1_000) },
  })
  pass(60_000)
  expect(await readings.server.get()).toEqual({
    ...{ bytes: 2, at: new Date(61_000) },
    first: { bytes: 1, at: new Date(1_000) },
  })
})
