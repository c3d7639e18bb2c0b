/** A schedule of several teams: a team whose run is still going skips the next scheduled time, and only that team. */
import pino from 'pino'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openSchedule } from '../../../src/operate/serve/schedule.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

it('a team whose run is still going is skipped and named; a team that has finished runs at each scheduled time', async () => {
  await using warehouse = await openWarehouse()
  await query(warehouse.url, "insert into intake.teams (name) values ('slow'), ('quick')")
  const said: { msg: string; teams?: string[] }[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) })
  const runs: (readonly string[])[] = []
  let stopped = 0
  const schedule = openSchedule({
    ...{ url: warehouse.url, expression: '* * * * * *', job: 'backfill', clock: systemClock, logger },
    teams: ['slow', 'quick'],
    async run(teams, signal, onTeamEnded) {
      runs.push(teams)
      onTeamEnded('quick')
      if (!teams.includes('slow')) return
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      stopped += 1
    },
  })
  await expect.poll(() => runs.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(3)
  await schedule.close()
  expect(runs[0]).toEqual(['slow', 'quick'])
  for (const teams of runs.slice(1)) expect(teams).toEqual(['quick'])
  const skipped = said.filter(({ msg }) => msg.startsWith('skipped: '))
  expect(skipped.length).toBeGreaterThanOrEqual(2)
  for (const { teams } of skipped) expect(teams).toEqual(['slow'])
  // Closing waited for the run to finish.
  expect(stopped).toBe(1)
})
