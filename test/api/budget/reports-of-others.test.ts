/** What a process learns from a rejection with the reports of what other processes have sent. */
import { expect, test } from 'vitest'
import { type Division, emptyDivision } from '../../../src/api/budget/division.ts'
import { Part } from '../../../src/api/budget/exchange.ts'
import { Limit } from '../../../src/api/budget/limit.ts'
import type { ModelState } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000
const NOW = 1_000 * SECOND

test.each([
  ['nobody else sends', 0, 2, false],
  ['another has sent one', 1, 3, true],
  ['the limit is so high that one more matters little', 40, 42, false],
])(
  'a limit that reports of others explain is raised soon, since they are not exact: %s',
  (_, sent, count, unsure) => {
    const limit = new Limit(4)
    for (const before of [300_000, 200_000]) limit.accepted(limit.sent(NOW - before), NOW - before)
    limit.others = sent === 0 ? [] : [[NOW - 100_000, sent]]
    limit.rejected(limit.sent(NOW), NOW, 5 * SECOND)
    expect(limit.known).toBe(null)
    limit.resume(NOW + 5 * SECOND)
    expect(limit.known).toMatchObject({ count, unsure })
  },
)

test('a process that has sent nothing explains the rejection of another as that of a first request', () => {
  const limit = new Limit(4)
  // One arrived while the rejection was on its way: it may have been counted before.
  limit.others = [
    [NOW - 10_000, 2],
    [NOW + 5_000, 1],
  ]
  limit.takeOver({ sentAt: NOW, seenAt: NOW + 10_000, rejections: 1, retryAfter: 5 * SECOND })
  limit.resume(NOW + 6 * SECOND)
  expect(limit.known).toMatchObject({ count: 3 })
})

const model = (count: number, seconds: number): ModelState => ({
  ...{ count, window: seconds * SECOND, margin: 0, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30 * SECOND },
})

test.each([
  ['it has agreed on a limit with the others before', true],
  ['it joins them just then', false],
])(
  'a process that takes over a rejection waits for the reports of the others before it explains it: %s',
  (_, isKnown) => {
    const time = { now: NOW }
    const clock = { now: () => time.now, sleep: async () => {} }
    const part = new Part({
      name: 'me',
      limit: new Limit(4),
      clock,
      demand: () => ({ waiting: 1, urgent: 0 }),
    })
    const holder = { since: 1, wants: null, urgent: 0, sends: [], isFixed: false, until: 2 * NOW, permits: 0 }
    const rejection = {
      sentAt: NOW - 9 * SECOND,
      seenAt: NOW - 8 * SECOND,
      rejections: 1,
      retryAfter: 2 * SECOND,
    }
    let division: Division = { ...emptyDivision(), model: model(4, 1), revision: 1, holders: { a: holder } }
    const ownerAfter = (milliseconds: number) => {
      time.now = NOW + milliseconds * 1_000
      part.begin(false)
      division = part.change(division, time.now).division
      part.done()
      expect(part.isOwner).toBe(division.episode?.owner === 'me')
      return division.episode?.owner ?? 'explained'
    }
    if (isKnown) expect(ownerAfter(-1)).toBe('explained')
    division = { ...division, episode: { owner: 'gone', ...rejection } }
    expect([0, 149, 150].map(ownerAfter)).toEqual(['me', 'me', 'explained'])
  },
)

test('what was sent in two windows is remembered, however many requests that is, and what was sent before is not', () => {
  const limit = new Limit(4)
  limit.adopt(model(100_000, 10), NOW)
  const sent = (seconds: number) => {
    for (let time = 0; time < seconds; time += 0.004) limit.accepted(limit.sent(NOW + time * SECOND), NOW)
    return limit.sentBetween(0, 2 * NOW)
  }
  // Two windows and a second are 21 seconds: 5,250 requests.
  expect(sent(20)).toBe(5_000)
  const remembered = new Limit(4)
  remembered.adopt(model(100_000, 1), NOW)
  for (let place = 0; place < 6_000; place++)
    remembered.accepted(remembered.sent(NOW + place * 4_000), NOW + place * 4_000)
  const last = NOW + 5_999 * 4_000
  // Three seconds, for a window of one; what is older is forgotten once there are more than 4,096.
  expect(remembered.sentBetween(last - 3 * SECOND, last)).toBe(750)
  expect(remembered.sentBetween(0, last)).toBeLessThanOrEqual(4_097)
})
