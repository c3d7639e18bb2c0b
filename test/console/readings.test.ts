/** Readings that pages share: one at a time, seldom, and new after a change. */
import { expect, it } from 'vitest'
import { openAnswers, remembered } from '../../src/console/readings.ts'
import { systemClock } from '../../src/core/clock.ts'

/** A reading that the test answers. */
function startScene(freshMs = 1_000) {
  let micros = 0
  const asked: { answer(value: string): void; fail(): void }[] = []
  const clock = { now: () => micros, sleep: systemClock.sleep }
  const shared = remembered(
    () =>
      new Promise<string>((resolve, reject) => {
        asked.push({ answer: resolve, fail: () => reject(new Error('away')) })
      }),
    { freshMs, clock },
  )
  const pass = (milliseconds: number) => {
    micros += milliseconds * 1_000
  }
  return { shared, asked, pass }
}

it('a value is read once for all callers that wait for it, and again only when it is old', async () => {
  const { shared, asked, pass } = startScene()
  const both = Promise.all([shared.get(), shared.get()])
  asked[0]!.answer('first')
  expect(await both).toEqual(['first', 'first'])
  pass(900)
  expect([await shared.get(), asked.length]).toEqual(['first', 1])
  pass(200)
  const again = Promise.all([shared.get(), shared.within(60_000)])
  expect(asked.length).toBe(2)
  asked[1]!.answer('second')
  expect(await again).toEqual(['second', 'second'])
})

it('who cannot wait gets a value of the last minute, not an older one', async () => {
  const { shared, asked, pass } = startScene()
  const first = shared.get()
  asked[0]!.answer('first')
  await first
  pass(59_000)
  // Ten minutes are not waited for where there is a value.
  expect([await shared.within(600_000), asked.length]).toEqual(['first', 2])
  pass(2_000)
  expect([await shared.within(10), asked.length]).toEqual([null, 2])
})

it.each([
  ['a hundredth of the time', 0.1, 10],
  ['more, so that a value is no older than half a minute', 1, 30],
  ['a twentieth of the time at most', 5, 100],
])('a slow value is read for %s', async (_, took, fresh) => {
  const { shared, asked, pass } = startScene()
  const first = shared.get()
  pass(took * 1_000)
  asked[0]!.answer('slow')
  await first
  pass(fresh * 1_000 - 100)
  expect([await shared.get(), asked.length]).toEqual(['slow', 1])
  pass(200)
  void shared.within(10)
  expect(asked.length).toBe(2)
})

it('after a change, no caller gets a value that was read before it', async () => {
  const { shared, asked } = startScene()
  const before = shared.get()
  shared.forget()
  const after = shared.get()
  asked[0]!.answer('old')
  expect(await before).toBe('old')
  await expect.poll(() => asked.length).toBe(2)
  asked[1]!.answer('new')
  expect(await after).toBe('new')
  expect([await shared.get(), asked.length]).toEqual(['new', 2])
})

it('a reading that fails after a change is repeated for those who asked after it, and fails for those who asked before', async () => {
  const { shared, asked } = startScene()
  const before = shared.get()
  shared.forget()
  const after = Promise.all([shared.get(), shared.get()])
  asked[0]!.fail()
  await expect(before).rejects.toThrow('away')
  await expect.poll(() => asked.length).toBe(2)
  asked[1]!.answer('new')
  expect([await after, asked.length]).toEqual([['new', 'new'], 2])
})

it('what is read while something changes is not kept', async () => {
  const { shared, asked } = startScene()
  const before = shared.get()
  shared.forget()
  asked[0]!.answer('old')
  expect(await before).toBe('old')
  const after = shared.get()
  asked[1]!.answer('new')
  expect(await after).toBe('new')
})

it('a reading that fails is reported to its callers, and tried again', async () => {
  const { shared, asked } = startScene()
  const first = shared.get()
  asked[0]!.fail()
  await expect(first).rejects.toThrow('away')
  const second = shared.get()
  asked[1]!.answer('back')
  expect(await second).toBe('back')
})

it('a caller that does not wait gets nothing, and the reading continues', async () => {
  const { shared, asked } = startScene()
  expect(await shared.within(10)).toBeNull()
  asked[0]!.answer('there')
  await expect.poll(() => shared.within(10)).toBe('there')
  expect(asked.length).toBe(1)
})

it('an answer that is late is for whoever asks the same next, once, unless something was changed', async () => {
  let micros = 0
  const { ask, forget } = openAnswers({ now: () => micros, sleep: systemClock.sleep })
  const begun: { answer(value: string): void; fail(): void }[] = []
  const read = () =>
    new Promise<string>((resolve, reject) => {
      begun.push({ answer: resolve, fail: () => reject(new Error('away')) })
    })
  const within = (key: string) => ask(key, read, 10)
  expect([await within('one'), await within('two'), await within('one'), begun.length]).toEqual([
    ...[null, null, null],
    2,
  ])
  begun[0]!.answer('first')
  expect([await within('one'), await within('one'), begun.length]).toEqual(['first', null, 3])
  begun[1]!.fail()
  await expect(within('two')).rejects.toThrow('away')
  // Nobody asked for this answer for more than a minute.
  begun[2]!.answer('old')
  micros += 61_000_000
  expect([await within('one'), begun.length]).toEqual([null, 4])
  // Nor is one that was read before something was changed.
  begun[3]!.answer('before the change')
  forget()
  expect([await within('one'), begun.length]).toEqual([null, 5])
  begun[4]!.answer('after it')
  expect([await within('one'), begun.length]).toEqual(['after it', 5])
})

it('of more than a hundred answers that nobody came for, the oldest is forgotten', async () => {
  const { ask } = openAnswers({ now: () => 0, sleep: systemClock.sleep })
  let begun = 0
  const within = (key: string) =>
    ask(
      key,
      () => {
        begun += 1
        return new Promise<string>(() => {})
      },
      1,
    )
  const keys = Array.from({ length: 101 }, (_, at) => `key ${at}`)
  await Promise.all(keys.map(within))
  expect(begun).toBe(101)
  // Whoever comes for one of a hundred takes the place of no other.
  await Promise.all(['key 1', 'key 100', 'key 2'].map(within))
  expect(begun).toBe(101)
  await within('key 0')
  expect(begun).toBe(102)
})

it('who cannot wait gets no value that was read before a change', async () => {
  const { shared, asked, pass } = startScene()
  const first = shared.get()
  asked[0]!.answer('first')
  await first
  pass(2_000)
  const waiting = shared.within(20)
  shared.forget()
  expect(await waiting).toBeNull()
})
