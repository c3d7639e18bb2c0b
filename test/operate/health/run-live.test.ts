/** What the stored progress of a run means. */
import { expect, it } from 'vitest'
import { progressOf, type StoredProgress } from '../../../src/operate/health/run-live.ts'

const stored = (over: Partial<StoredProgress>): StoredProgress => ({
  ...{ team: 'north', stream: 'patients', phase: 'fetch', pages: 3, requests: 30, throttled: 1 },
  ...{ fetched: 300, expected: 1_200, permitted_rate: 20, seconds: 3 },
  ...over,
})

it('says how much of the budget is used, and how long the longest list still takes', () => {
  const { streams, teams, seconds_left } = progressOf([
    stored({}),
    stored({ stream: 'forms', requests: 15, throttled: 0, fetched: 10, expected: 20, seconds: 1 }),
    stored({ stream: 'documents', phase: 'ended', requests: 0, throttled: 0, fetched: 0, expected: null }),
    stored({ team: 'south', phase: 'plan', fetched: 0, expected: null, permitted_rate: null, seconds: 0 }),
  ])
  expect(streams.map(({ rate, seconds_left: left }) => [rate, left])).toEqual([
    [100, 9],
    [10, 1],
    [null, null],
    [null, null],
  ])
  expect(teams).toEqual([
    { team: 'north', requests: 45, throttled: 1, permitted_rate: 20, rate: 15, share: 0.75 },
    { team: 'south', requests: 30, throttled: 1, permitted_rate: null, rate: 30, share: null },
  ])
  expect(seconds_left).toBe(9)
  expect(progressOf([])).toEqual({ streams: [], teams: [], seconds_left: null })
})
