/** The rounds in which a drain takes events: from which teams, how many events and bytes; and how it settles them. */
import { expect, test } from 'vitest'
import {
  type InboxRow,
  isAnyDue,
  remove,
  settle,
  takeDue,
  takeThese,
} from '../../../src/ingest/drain/inbox-rows.ts'
import { answering } from '../../support/scripted.ts'

const row = (teamId: number, seq: number, bytes = 10) =>
  ({ teamId, seq: String(seq), receivedOn: '2026-01-01', body: Buffer.alloc(bytes) }) as InboxRow

const seqsOf = (rows: readonly InboxRow[]) => rows.map(({ seq }) => Number(seq))

test('one team is asked at once, from its place on, for a whole batch', async () => {
  const { session, asked } = answering([row(7, 3)])
  expect(seqsOf(await takeDue(session, [7], 100, (teamId) => `${teamId}0`))).toEqual([3])
  expect(asked).toEqual([['drain take', [7], ['70'], 100, 8_000_000]])
})

test('of several teams those with events share a batch; what one leaves goes to those that had their whole share', async () => {
  const { session, asked } = answering(
    [
      { teamId: 1, after: '5' },
      { teamId: 3, after: '0' },
      { teamId: 4, after: '2' },
    ],
    [row(1, 9), row(1, 100), row(1, 101), row(3, 8), row(4, 7), row(4, 10), row(4, 11)],
    [row(1, 102), row(4, 12)],
  )
  // Numbers are ordered as numbers, whatever team has them.
  const taken = await takeDue(session, [1, 2, 3, 4], 9, (teamId) => (teamId === 1 ? '5' : '0'))
  expect(seqsOf(taken)).toEqual([7, 8, 9, 10, 11, 12, 100, 101, 102])
  expect(asked).toEqual([
    ['drain teams', [1, 2, 3, 4], ['5', '0', '0', '0']],
    ['drain take', [1, 3, 4], ['5', '0', '2'], 3, 8_000_000],
    ['drain take', [1, 4], ['101', '11'], 1, 8_000_000 - 70],
  ])
})

test('of two teams with more than a batch each has half; a share is rounded up, so that no place is left', async () => {
  const due = [1, 2].map((teamId) => ({ teamId, after: '0' }))
  const { session, asked } = answering(due, [row(1, 1), row(1, 2), row(2, 3), row(2, 4)])
  expect(seqsOf(await takeDue(session, [1, 2], 3))).toEqual([1, 2, 3, 4])
  expect(asked.slice(1)).toEqual([['drain take', [1, 2], ['0', '0'], 2, 8_000_000]])
})

test('once a batch has its bytes nothing more is asked for, and where no team has events nothing at all', async () => {
  const due = [1, 2].map((teamId) => ({ teamId, after: '0' }))
  const large = answering(due, [row(1, 1, 7_999_999), row(2, 2, 1)])
  expect(seqsOf(await takeDue(large.session, [1, 2], 9))).toEqual([1, 2])
  expect(large.asked).toHaveLength(2)
  const none = answering([])
  expect(await takeDue(none.session, [1, 2], 9)).toEqual([])
  expect(none.asked).toEqual([['drain teams', [1, 2], ['0', '0']]])
})

test('whether an event is due is asked for all teams, from the beginning of the inbox', async () => {
  const { session, asked } = answering([{ teamId: 2, after: '0' }])
  expect([await isAnyDue(session, [1, 2]), await isAnyDue(session, [1])]).toEqual([true, false])
  expect(asked).toEqual([
    ['drain teams', [1, 2], ['0', '0']],
    ['drain teams', [1], ['0']],
  ])
})

test('events are settled and removed in the partitions of their days, each named once; no events ask for nothing', async () => {
  const rows = [row(1, 1), row(2, 2), { ...row(1, 3), receivedOn: '2026-01-02' }]
  const days = ['2026-01-01', '2026-01-02']
  const { session, asked } = answering([{ seq: '1', seconds: 2 }])
  expect(await settle(session, [], 'done')).toEqual([])
  expect(asked).toEqual([])
  expect(await settle(session, rows, 'dead')).toEqual([{ seq: '1', seconds: 2 }])
  await remove(session, rows)
  await takeThese(session, ['1', '2'])
  expect(asked).toEqual([
    ['drain settle', 'dead', ['1', '2', '3'], days],
    ['delete', ['1', '2', '3'], days],
    ['select', ['1', '2']],
  ])
})
