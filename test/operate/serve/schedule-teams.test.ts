/**
 * A schedule of several teams and processes: one process gets each scheduled time of a team. A team whose run is still
 * going skips the next scheduled time, and only that team.
 */
import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openSchedule, takeTick } from '../../../src/operate/serve/schedule.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

it('a team whose run is still going is skipped and named; others, finished or first run elsewhere, run at each scheduled time', async () => {
  await using warehouse = await openWarehouse()
  await query(warehouse.url, "insert into intake.teams (name) values ('slow'), ('quick'), ('elsewhere')")
  // Another process takes the first scheduled time of one team.
  await query(
    warehouse.url,
    `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
     select team_id, 'backfill', date_trunc('second', now()) + n * interval '1 second', gen_random_uuid()
     from intake.teams, generate_series(0, 60) n where name = 'elsewhere'`,
  )
  const said: { msg: string; teams?: string[] }[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) })
  const runs: (readonly string[])[] = []
  let stopped = 0
  const schedule = openSchedule({
    ...{ url: warehouse.url, expression: '* * * * * *', job: 'backfill', clock: systemClock, logger },
    teams: ['slow', 'quick', 'elsewhere'],
    async run(teams, signal, onTeamEnded) {
      runs.push(teams)
      onTeamEnded('quick')
      if (!teams.includes('slow')) return
      await query(
        warehouse.url,
        `delete from intake_ops.schedule_ticks using intake.teams
         where teams.team_id = schedule_ticks.team_id and name = 'elsewhere'`,
      )
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      stopped += 1
    },
  })
  // Where taking a scheduled time takes longer than a second, others are skipped too.
  const skippedAlone = () =>
    said.filter(({ msg, teams }) => msg.startsWith('skipped: ') && teams?.join() === 'slow').length
  const ofElsewhere = () => runs.filter((teams) => teams.includes('elsewhere')).length
  await expect.poll(() => Math.min(skippedAlone(), ofElsewhere())).toBeGreaterThanOrEqual(2)
  await schedule.close()
  expect(runs[0]).toEqual(['slow', 'quick'])
  for (const teams of runs.slice(1)) expect(teams.at(0)).toBe('quick')
  const skipped = said.filter(({ msg }) => msg.startsWith('skipped: '))
  for (const { teams } of skipped) expect(teams).toContain('slow')
  // Closing waited for the run to finish.
  expect(stopped).toBe(1)
})

it('of many processes that claim a scheduled time one gets it, for each team; old claims are removed, except the newest', async () => {
  await using warehouse = await openWarehouse()
  await query(
    warehouse.url,
    "insert into intake.teams (name) values ('north'), ('south'), ('east'), ('idle')",
  )
  const due = new Date(Math.floor(Date.now() / 60_000) * 60_000)
  await query(
    warehouse.url,
    `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
     select team_id, job, now() - days * interval '1 day', gen_random_uuid()
     from intake.teams, (values ('backfill', 28), ('backfill', 29), ('backfill', 31), ('backfill', 32), ('another', 40))
       as claim (job, days)`,
  )
  // Its newest is older than what is kept of the others, which have newer ones.
  await query(
    warehouse.url,
    `delete from intake_ops.schedule_ticks using intake.teams
     where teams.team_id = schedule_ticks.team_id and name = 'idle' and due_at > now() - interval '30 days'`,
  )
  const wanted = [['north', 'south'], ['south', 'east'], ['north'], ['east', 'south', 'north']]
  const take = (teams: readonly string[], by: string = randomUUID(), at = due) =>
    takeTick(warehouse.url, { job: 'backfill', due: at, teams, by })
  const got = await Promise.all(wanted.map((teams) => take(teams)))
  expect(got.flat().toSorted()).toEqual(['east', 'north', 'south'])
  expect(await take(['north'])).toEqual([])
  // The next scheduled time; a process that claimed it and lost the answer asks again.
  const next = new Date(due.getTime() + 60_000)
  const by = randomUUID()
  expect(await take(['north'], by, next)).toEqual(['north'])
  expect(await take(['north'], randomUUID(), next)).toEqual([])
  expect(await take(['north', 'east'], by, next)).toEqual(['north', 'east'])
  const left = await query(
    warehouse.url,
    `select name, count(*)::int as claims, count(*) filter (where job = 'another')::int as of_another
     from intake_ops.schedule_ticks join intake.teams using (team_id) group by name order by name`,
  )
  expect(left).toEqual([
    { name: 'east', claims: 5, of_another: 1 },
    { name: 'idle', claims: 2, of_another: 1 },
    { name: 'north', claims: 5, of_another: 1 },
    { name: 'south', claims: 4, of_another: 1 },
  ])
})
