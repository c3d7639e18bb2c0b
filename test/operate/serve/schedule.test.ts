/** A time of the schedule: taken again and again while the warehouse is away, and reported where others have it. */
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openSchedule } from '../../../src/operate/serve/schedule.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

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
      ...{ level: 50, hint: expect.stringContaining('DATABASE_URL') },
      ...{ code: 'warehouse_unreachable', job: 'backfill', due: new Date(2026, 5, 10, 12).toISOString() },
      msg: expect.stringMatching(/^the scheduled run did not start: cannot reach the warehouse/),
    },
  ])
  expect([pauses, runs]).toEqual([[1_000, 10_000, 60_000], []])
  await schedule.close()
})

test('closed while it waits for the warehouse, it neither tries again nor reports anything', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: new Date(2026, 5, 10, 11, 59) })
  onTestFinished(() => void vi.useRealTimers())
  const pauses: number[] = []
  const said: unknown[] = []
  const runs: unknown[] = []
  const schedule = openSchedule({
    ...{ url: 'postgres://nobody@127.0.0.1:1/none', expression: '0 12 * * *', job: 'backfill' },
    teams: ['north'],
    logger: pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) }),
    clock: {
      ...systemClock,
      sleep: (milliseconds, signal) =>
        new Promise((_, reject) => {
          pauses.push(milliseconds)
          signal?.addEventListener('abort', () => reject(signal.reason))
        }),
    },
    run: async (teams) => void runs.push(teams),
  })
  await vi.advanceTimersByTimeAsync(60_000)
  await expect.poll(() => pauses).toEqual([1_000])
  await schedule.close()
  await schedule.close()
  expect([pauses, runs, said]).toEqual([[1_000], [], []])
})

test('a time that others took is reported with the teams that are left, and those that skip it by name', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  // Old times that were taken would be removed.
  const due = new Date(Math.ceil(Date.now() / 3_600_000) * 3_600_000)
  await query(url, `insert into intake.teams (name) values ('north'), ('south'), ('east')`)
  const take = (names: string, at: Date) =>
    query(
      url,
      `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
       select team_id, 'backfill', $2, gen_random_uuid() from intake.teams where name = any ($1::text[])
       on conflict do nothing`,
      [names, at],
    )
  const hour = (hours: number) => new Date(due.getTime() + hours * 3_600_000)
  await take('{south}', due)
  await take('{north,south,east}', hour(2))
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: due.getTime() - 60_000 })
  onTestFinished(() => void vi.useRealTimers())
  const said: Record<string, unknown>[] = []
  const runs: (readonly string[])[] = []
  const ends: (() => void)[] = []
  const schedule = openSchedule({
    ...{ url, expression: `${due.getMinutes()} * * * *`, job: 'backfill', teams: ['north', 'south', 'east'] },
    logger: pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) }),
    clock: systemClock,
    async run(teams, _, onTeamEnded) {
      runs.push(teams)
      onTeamEnded('east')
      await new Promise<void>((resolve) => void ends.push(resolve))
    },
  })
  await vi.advanceTimersByTimeAsync(60_000)
  await expect.poll(() => runs.length).toBe(1)
  await vi.advanceTimersByTimeAsync(3_600_000)
  await expect.poll(() => runs.length).toBe(2)
  ends[1]!()
  await new Promise(setImmediate)
  await vi.advanceTimersByTimeAsync(3_600_000)
  await expect.poll(() => said.length).toBe(4)
  const skipped = 'skipped: the previous run is still in progress'
  expect(said.map(({ time: _, ...line }) => line)).toEqual([
    {
      ...{ level: 30, job: 'backfill', due: due.toISOString(), teams: ['north', 'east'] },
      msg: 'another process runs the other teams',
    },
    { level: 40, job: 'backfill', due: hour(1).toISOString(), teams: ['north'], msg: skipped },
    { level: 40, job: 'backfill', due: hour(2).toISOString(), teams: ['north'], msg: skipped },
    { level: 30, job: 'backfill', due: hour(2).toISOString(), msg: 'another process runs this tick' },
  ])
  expect(runs).toEqual([
    ['north', 'east'],
    ['south', 'east'],
  ])
  const closing = schedule.close()
  for (const end of ends) end()
  await closing
})
