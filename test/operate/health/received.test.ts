/** Events are counted by team and hour, whatever the warehouse does meanwhile. */
import pino from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { openReceived } from '../../../src/operate/health/received.ts'
import { type BoundedQueries, openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

it('events that arrive while their counts cannot be written are counted too', async () => {
  const { url, drop } = await openWarehouse()
  onTestFinished(drop)
  await query(url, `insert into intake.teams (name) values ('north')`)
  await using warehouse = openBoundedQueries(url, 1)
  let tries = 0
  const bounded: BoundedQueries = {
    ...warehouse,
    run: async (look, work) => {
      tries += 1
      if (tries > 1) return await warehouse.run(look, work)
      received.note('north', false)
      throw new Error('the warehouse is away')
    },
  }
  const received = openReceived({ bounded, logger: pino({ level: 'silent' }) })
  received.note('north', false)
  received.note('north', true)
  await received.close()
  await received.close()
  expect(await query(url, 'select sum(events)::int as events from intake_ops.events_received')).toEqual([
    { events: 2 },
  ])
})
