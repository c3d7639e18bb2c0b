/** Figures and lines of a run in progress, stored for those who watch it. */
import pino from 'pino'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { openRunProgress } from '../../src/load/run-progress.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'

it('times are those of the run’s clock, and lines go to its own log too', async () => {
  const { url, drop } = await openWarehouse()
  let micros = 1_000_000_000_000_000
  const clock = { now: () => micros, sleep: systemClock.sleep }
  const logged: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void logged.push(line) })
  const [team] = await query<{ team_id: number }>(
    url,
    `insert into intake.teams (name) values ('north') returning team_id`,
  )
  const [run] = await query<{ run_id: string }>(
    url,
    `insert into intake_ops.runs (kind, status, options) values ('backfill', 'running', '{}') returning run_id`,
  )
  const teams = [{ name: 'north', teamId: team!.team_id }]
  const progress = openRunProgress({ url, runId: run!.run_id, teams, clock, logger })
  const figures = { phase: 'fetch' as const, pages: 1, requests: 2, throttled: 0, fetched: 3, expected: null }
  progress.watch(team!.team_id, 'patients', () => ({ ...figures, permitted_rate: null }))
  progress.logger.warn({ team: 'north', stream: 'patients' }, 'slow')
  micros += 90_000_000
  const stored = () =>
    query(
      url,
      `select to_json(began_at at time zone 'UTC') as began, to_json(updated_at at time zone 'UTC') as updated,
         (select to_json(at at time zone 'UTC') from intake_ops.run_log) as logged from intake_ops.run_progress`,
    )
  try {
    await expect
      .poll(stored)
      .toEqual([
        { began: '2001-09-09T01:46:40', updated: '2001-09-09T01:48:10', logged: '2001-09-09T01:46:40' },
      ])
    expect(logged.join()).toContain('slow')
  } finally {
    await progress[Symbol.asyncDispose]()
    await drop()
  }
})
