/** Log entries that the service still lists and that retention removed here: they are not missing, and those of others stay. */
import { expect, test } from 'vitest'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
withoutPausesOfVerify()

test('entries before the time of the last retention of this team and log are not expected; later ones, and those without a time, are', async () => {
  const warehouse = await openWarehouse()
  try {
    await using service = await startLittleService()
    for (const [id, created_at] of [
      ['before', '2026-01-01T23:59:59.999999Z'],
      ['then', '2026-01-02T00:00:00Z'],
      ['after', '2026-01-02T00:00:00.000001Z'],
      ['timeless', null],
    ])
      service.records.webhookDeliveries.push({
        id: id!,
        event: 'e',
        status: 'failed',
        created_at,
        attempts: 0,
      })
    Object.assign(service.records.webhookDeliveries.at(-1)!, { attempts: 1 })
    const access = { baseUrl: service.url, apiKey: 'little-key', apiSecret: 'little-secret' }
    const teams = configOf(['north', 'south'].map((name) => ({ ...access, name })))
    const env = { ...teams, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' }
    const words = ['--streams', 'webhook_deliveries', '--json']
    expect((await runCommand(['backfill', ...words], env)).code).toBe(0)
    const verify = async () => {
      const said = JSON.parse((await runCommand(['verify', ...words], env)).stdout)
      return ['north', 'south'].map((name) => {
        const { source, warehouse: here, missing, extra, note } = said.teams[name].streams.webhook_deliveries
        return { source, here, missing, extra, note }
      })
    }
    const equal = (count: number) => ({ source: count, here: count, missing: [], extra: [], note: null })
    expect(await verify()).toEqual([equal(4), equal(4)])
    for (const table of ['intake.webhook_deliveries', 'intake_raw.records'])
      await query(warehouse.url, `delete from ${table} where team_id = 1 and id = 'before'`)
    expect((await verify())[0]).toEqual({ ...equal(3), source: 4, missing: ['before'] })
    await query(
      warehouse.url,
      `insert into intake_ops.pruned_logs (team_id, stream, before)
       values (1, 'webhook_deliveries', '2026-01-02'), (2, 'patients', '2027-01-01')`,
    )
    // Nothing is known of the time of this one.
    for (const table of ['intake.webhook_deliveries', 'intake_raw.records'])
      await query(warehouse.url, `delete from ${table} where team_id = 1 and id = 'timeless'`)
    expect(await verify()).toEqual([{ ...equal(2), source: 3, missing: ['timeless'] }, equal(4)])
  } finally {
    await warehouse.drop()
  }
})
