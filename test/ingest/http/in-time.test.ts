/** Work with a time limit: it ends once, in one of three ways, and leaves neither a timer nor an error behind. */
import { beforeEach, expect, test } from 'vitest'
import { withTimeout } from '../../../src/ingest/http/in-time.ts'

let timers: { readonly milliseconds: number; end(): void }[]
const clock = {
  now: () => 0,
  sleep: (milliseconds: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const timer = { milliseconds, end: resolve }
      timers.push(timer)
      signal?.addEventListener('abort', () => {
        timers.splice(timers.indexOf(timer), 1)
        reject(signal.reason)
      })
    }),
}
beforeEach(() => {
  timers = []
})
const TOO_LATE = { code: 'warehouse_slow', verdict: 'retry' }

test('work that ends in time has its result or its own error, and its timer ends with it', async () => {
  expect(await withTimeout(clock, 1_400, Promise.resolve('done'))).toBe('done')
  const failure = new Error('no')
  await expect(withTimeout(clock, 1_400, Promise.reject(failure))).rejects.toBe(failure)
  expect(timers).toEqual([])
})

test('work that takes longer than its milliseconds is late', async () => {
  let fail = (_: Error) => {}
  const work = new Promise<string>((_, reject) => {
    fail = reject
  })
  const waiting = withTimeout(clock, 1_400, work)
  expect(timers.map(({ milliseconds }) => milliseconds)).toEqual([1_400])
  timers[0]!.end()
  await expect(waiting).rejects.toMatchObject(TOO_LATE)
  // An unhandled rejection would fail the run.
  fail(new Error('too late'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(timers).toEqual([])
})
