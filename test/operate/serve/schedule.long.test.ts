/** Each scheduled time is run once, by one process, and no failure ends the schedule. */

import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { openSchedule, type Schedule, type ScheduleOptions } from '../../../src/operate/serve/schedule.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

async function openTeams(...names: string[]) {
  const warehouse = await openWarehouse()
  await query(warehouse.url, 'insert into intake.teams (name) select unnest($1::text[])', [names])
  return warehouse
}

/** A schedule that fires every second, and its log lines. */
function everySecond(url: string, run: ScheduleOptions['run'], teams: readonly string[] = ['north']) {
  const said: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(line) })
  const options = { url, expression: '* * * * * *', job: 'backfill', teams, run, clock: systemClock, logger }
  return { said, schedule: openSchedule(options) }
}

async function closeAll(...all: { readonly schedule: Schedule }[]): Promise<void> {
  await Promise.all(all.map(({ schedule }) => schedule.close()))
}

it('three processes with one schedule run each scheduled time once', async () => {
  await using warehouse = await openTeams('north', 'south')
  const runs: string[] = []
  const all = [1, 2, 3].map(() =>
    everySecond(
      warehouse.url,
      async (teams) => {
        runs.push(...teams)
      },
      ['north', 'south'],
    ),
  )
  await expect.poll(() => runs.length).toBeGreaterThanOrEqual(6)
  await closeAll(...all)
  // Each row is a scheduled time of a team.
  const taken = await query(warehouse.url, 'select from intake_ops.schedule_ticks')
  expect(runs).toHaveLength(taken.length)
})

it('a scheduled time during a run is skipped and logged, and the next one after it is run', async () => {
  await using warehouse = await openTeams('north')
  let begun = 0
  let running = 0
  let most = 0
  const one = everySecond(warehouse.url, async () => {
    begun += 1
    most = Math.max(most, ++running)
    while (!isSkipped()) await sleep(50)
    await sleep(300)
    running -= 1
  })
  const isSkipped = () => one.said.join('').includes('skipped: the previous run is still in progress')
  await expect.poll(() => begun).toBe(2)
  await closeAll(one)
  expect(isSkipped()).toBe(true)
  expect(most).toBe(1)
})

it('a failed run is logged without its cause, and the next one is run', async () => {
  await using warehouse = await openTeams('north')
  let begun = 0
  const one = everySecond(warehouse.url, async () => {
    begun += 1
    if (begun === 1) throw new Error('canary-7f3a')
    if (begun === 2)
      throw new IntakeError('another run holds patients', { code: 'held_by_another_run', verdict: 'stop' })
  })
  await expect.poll(() => begun).toBe(3)
  await closeAll(one)
  const said = one.said.join('')
  expect(said).toContain('the scheduled run did not start: another run holds patients')
  expect(said).toContain('"code":"internal"')
  expect(said).not.toContain('canary-7f3a')
})

it('closing asks the current run to stop, and waits until it has', async () => {
  await using warehouse = await openTeams('north')
  const steps: string[] = []
  const one = everySecond(warehouse.url, async (_, signal) => {
    steps.push('begun')
    await sleep(30_000, undefined, { signal }).catch(() => undefined)
    await sleep(100)
    steps.push('ended')
  })
  await expect.poll(() => steps).toEqual(['begun'])
  await closeAll(one)
  expect(steps).toEqual(['begun', 'ended'])
  await sleep(1_200)
  expect(steps).toEqual(['begun', 'ended'])
})
