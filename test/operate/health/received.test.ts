/** Events are counted by team and hour, whatever the warehouse does meanwhile. */
import pino from 'pino'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { dropOldCounts, openReceived } from '../../../src/operate/health/received.ts'
import { type BoundedQueries, openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { awayFromTheHour } from '../../support/hour.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await openWarehouse()
  await query(database.url, `insert into intake.teams (name) values ('north'), ('south')`)
})
afterAll(() => database.drop())

it('events that arrive while their counts cannot be written are counted too, and an outage is reported once', async () => {
  await awayFromTheHour()
  await using warehouse = openBoundedQueries(database.url, 1)
  let isAway = true
  const bounded: BoundedQueries = {
    ...warehouse,
    run: async (look, work) => {
      if (!isAway) return await warehouse.run(look, work)
      received.note('north', false)
      throw new Error('the warehouse is away')
    },
  }
  const said: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(line) })
  const received = openReceived({ bounded, logger })
  received.note('north', false)
  received.note('north', true)
  received.note('south', true)
  await received.close()
  await received.close()
  expect(said).toHaveLength(1)
  isAway = false
  await received.close()
  const counts = `select name, events::int as events, last_at > now() - interval '1 hour' as is_new
    from intake_ops.events_received join intake.teams using (team_id) order by 1`
  expect(await query(database.url, counts)).toEqual([
    { name: 'north', events: 3, is_new: true },
    { name: 'south', events: 0, is_new: true },
  ])
  received.note('south', false)
  received.note('south', false)
  await received.close()
  received.note('south', false)
  await received.close()
  expect(await query(database.url, counts)).toMatchObject([{ events: 3 }, { events: 3 }])
  // Duplicates alone show that webhooks arrive.
  await query(database.url, `update intake_ops.events_received set last_at = now() - interval '1 day'`)
  received.note('south', true)
  await received.close()
  expect(await query(database.url, counts)).toMatchObject([{ is_new: false }, { events: 3, is_new: true }])
  isAway = true
  received.note('north', false)
  await received.close()
  expect(said).toHaveLength(2)
})

it('counts are written every two seconds', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  await using bounded = openBoundedQueries(database.url, 1)
  await using received = openReceived({ bounded, logger: pino({ level: 'silent' }) })
  await query(database.url, 'delete from intake_ops.events_received')
  for (const events of [1, 2]) {
    received.note('north', false)
    vi.advanceTimersByTime(2_000)
    await expect
      .poll(() => query(database.url, 'select sum(events)::int as events from intake_ops.events_received'))
      .toEqual([{ events }])
  }
})

it('counts are kept for sixty days, and audited actions for six years', async () => {
  const { url } = database
  await query(
    url,
    `insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, now() - make_interval(days => days), 1, now() from intake.teams, unnest('{59,61}'::int[]) as days
     where name = 'north'`,
  )
  await query(
    url,
    `insert into intake_ops.audit (at, login, action, object) select now() - age, 'somebody', age::text, ''
     from unnest('{5 years 360 days,6 years 1 day}'::interval[]) as age`,
  )
  await dropOldCounts(url)
  const days = `select round(extract(epoch from now() - hour) / 86400)::int as days from intake_ops.events_received
    where hour < now() - interval '1 day'`
  expect(await query(url, days)).toEqual([{ days: 59 }])
  expect(await query(url, 'select action from intake_ops.audit')).toEqual([{ action: '5 years 360 days' }])
})
