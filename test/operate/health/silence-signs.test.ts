/** The check of deliveries reads what it has to look for, however many deliveries are listed. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readSigns, settleDeliveries } from '../../../src/operate/health/silence-signs.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { explainedUrl, watchPlans } from '../../support/plans.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database?.drop())

/** Pages that a round of the check reads when so many deliveries arrived long ago, and five are to be looked for. */
async function pagesWith(stored: number): Promise<number> {
  await using session = await openSession({ url: database.url, purpose: 'plans' })
  const own = session.client
  await own.query('truncate intake.webhook_deliveries, intake_ops.delivery_checks')
  await own.query(`insert into intake.teams (name) values ('default') on conflict do nothing`)
  const put = `insert into intake.webhook_deliveries
      (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, _version, _origin)
    select 1, 'd' || number, 'e' || number, 'c-1', 'x', 200, now() - interval '2 hours', now(), 'test'
    from generate_series($1::int, $2::int) as number`
  await own.query(put, [1, stored])
  // They were looked for, and found.
  await own.query('truncate intake_ops.delivery_checks')
  await own.query(put, [stored + 1, stored + 5])
  await own.query('analyze intake.webhook_deliveries')
  using watching = watchPlans()
  const url = explainedUrl(database.url)
  {
    await using explained = await openSession({ url, purpose: 'plans' })
    expect(await readSigns(explained.db, { inboxDays: 30 })).toHaveLength(1)
  }
  await using settling = await openSession({ url, purpose: 'plans' })
  await settleDeliveries(settling.db, 30)
  const plans = watching.take()
  const scans = plans
    .flatMap((plan) => plan.scans)
    .filter(({ table }) => table === 'intake.webhook_deliveries')
  expect(scans.length).toBeGreaterThan(0)
  expect(scans.filter(({ rows }) => rows > 5)).toEqual([])
  return plans.reduce((sum, { pages }) => sum + pages, 0)
}

it('costs with a hundred thousand deliveries what it costs with a thousand', async () => {
  const few = await pagesWith(1_000)
  // A larger index may be one level deeper.
  expect(await pagesWith(100_000)).toBeLessThanOrEqual(few + 100)
})
