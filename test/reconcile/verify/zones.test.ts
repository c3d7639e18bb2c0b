/** Files of exports whose team is in another time zone: they are compared, rebuilt and repaired in the zone of their team. */
import { expect, test } from 'vitest'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
withoutPausesOfVerify()

const HEAD = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived'
const FILE = `${HEAD}\np,A,B,a@b.example,2026-07-01 23:30:00,2026-01-01 00:30:00,False\n`

test('two teams with the same exports, each in its own zone, are equal, rebuilt and repaired as they were loaded', async () => {
  const warehouse = await openWarehouse()
  try {
    await using service = await startLittleService()
    service.records.exports.push({ id: 'e', name: 'E', form: null, created_at: '2026-01-01T00:00:00Z' })
    service.interfere = ({ method }, response) => {
      if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(FILE)
      return method === 'POST'
    }
    const access = { baseUrl: service.url, apiKey: 'little-key', apiSecret: 'little-secret' }
    const teams = [
      { ...access, name: 'north', timezone: 'America/New_York' },
      { ...access, name: 'south', timezone: 'Asia/Kolkata' },
    ]
    const env = { ...configOf(teams), DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' }
    const run = async (...words: string[]) => {
      const ended = await runCommand([...words, '--streams', 'exports', '--json'], env)
      return { code: ended.code, said: JSON.parse(ended.stdout) }
    }
    const times = () =>
      query(
        warehouse.url,
        `select team_id, to_char(sent_at at time zone 'UTC', 'MM-DD HH24:MI') as sent,
           to_char(completed_at at time zone 'UTC', 'MM-DD HH24:MI') as completed from intake.export_rows order by 1`,
      )
    const spoil = () =>
      query(warehouse.url, `update intake.export_rows set sent_at = now(), completed_at = null`)
    // Both days end, and New York has another time in summer.
    const loaded = [
      { team_id: 1, sent: '07-02 03:30', completed: '01-01 05:30' },
      { team_id: 2, sent: '07-01 18:00', completed: '12-31 19:00' },
    ]
    expect((await run('backfill')).code).toBe(0)
    expect(await times()).toEqual(loaded)
    expect((await run('verify')).said).toMatchObject({ equal: true })
    expect((await run('replay')).said.streams.exports).toMatchObject({ rewritten: 0 })
    await spoil()
    const { code, said } = await run('verify')
    const different = [{ id: 'e', fields: ['export_rows'] }]
    expect([code, ...teams.map(({ name }) => said.teams[name].streams.exports.different)]).toEqual([
      4,
      different,
      different,
    ])
    expect((await run('replay')).said.streams.exports).toMatchObject({ rewritten: 2 })
    expect(await times()).toEqual(loaded)
    await spoil()
    expect((await run('verify', '--repair')).code).toBe(0)
    expect(await times()).toEqual(loaded)
  } finally {
    await warehouse.drop()
  }
})
