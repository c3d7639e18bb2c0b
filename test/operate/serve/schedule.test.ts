/** A time of the schedule while the warehouse is away: taking it is tried again, each time after a longer pause. */
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openSchedule } from '../../../src/operate/serve/schedule.ts'

test('it is tried four times within seventy-one seconds, and then reported', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: new Date(2026, 5, 10, 11, 59) })
  onTestFinished(() => void vi.useRealTimers())
  const pauses: number[] = []
  const said: { readonly msg: string }[] = []
  const runs: unknown[] = []
  const schedule = openSchedule({
    ...{
      url: 'postgres://nobody@127.0.0.1:1/none',
      expression: '0 12 * * *',
      job: 'backfill',
      teams: ['north'],
    },
    logger: pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) }),
    clock: { ...systemClock, sleep: async (milliseconds) => void pauses.push(milliseconds) },
    run: async (teams) => void runs.push(teams),
  })
  expect(schedule.next()).toEqual(new Date(2026, 5, 10, 12))
  await vi.advanceTimersByTimeAsync(60_000)
  await expect.poll(() => said.length).toBe(1)
  expect(said).toMatchObject([
    {
      ...{ code: 'warehouse_unreachable', job: 'backfill', due: new Date(2026, 5, 10, 12).toISOString() },
      msg: expect.stringMatching(/^the scheduled run did not start: cannot reach the warehouse/),
    },
  ])
  expect([pauses, runs]).toEqual([[1_000, 10_000, 60_000], []])
  await schedule.close()
})
