/** What a limiter reports to the processes that share its budget about the calls that wait for a permit. */
import pino from 'pino'
import { expect, test } from 'vitest'
import { type Division, emptyDivision } from '../../../src/api/budget/division.ts'
import { openLimiter } from '../../../src/api/budget/limiter.ts'
import { openSimulatedClock } from './processes.ts'

test('while calls of any kind wait, a process requests permits without a maximum, and reports how many calls are urgent', async () => {
  const LIST = {}
  const FETCH = { urgent: true }
  const RETRY = { again: true }
  const reports: unknown[] = []
  for (const kinds of [[], [LIST], [FETCH], [RETRY], [FETCH, LIST, FETCH, RETRY]]) {
    const { clock, run } = openSimulatedClock()
    let division: Division = emptyDivision()
    let wake = () => {}
    const limiter = openLimiter({
      ...{ concurrency: 1, clock, logger: pino({ level: 'silent' }), team: 'north' },
      store: {
        name: 'me',
        update: async (change) => {
          division = change(division, clock.now()).division
        },
        listen: (listener) => {
          wake = listener
        },
        close: async () => {},
      },
    })
    const acquire = (kind: object) => limiter.acquire([], { since: clock.now(), again: false, ...kind })
    const first = acquire(LIST)
    await run(clock.now() + 100_000)
    const permit = await first
    const waiting = kinds.map(acquire)
    wake()
    await run(clock.now() + 100_000)
    const { wants, urgent } = division.holders.me!
    reports.push([wants, urgent])
    permit.accepted()
    await Promise.all(waiting.map(async (each) => (await each).accepted()))
    await limiter.close()
    expect(division.holders).toEqual({})
  }
  expect(reports).toEqual([
    [2, 0],
    [null, 0],
    [null, 1],
    [null, 0],
    [null, 2],
  ])
})
