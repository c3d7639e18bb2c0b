/** What a process learns from a rejection with the reports of what other processes have sent. */
import { expect, test } from 'vitest'
import { Limit } from '../../../src/api/budget/limit.ts'

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
