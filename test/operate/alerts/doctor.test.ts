/** The check of `doctor` for alerts: whether they are configured, signed and accepted. */
import { expect, it, onTestFinished } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { Variables } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'

it('reports whether alerts are posted, signed and accepted', async () => {
  const warehouse = await openWarehouse()
  onTestFinished(() => warehouse.drop())
  const check = async (env: Variables = {}) => {
    const ports = { INTAKE_WEBHOOK_PORT: '0', INTAKE_ADMIN_PORT: '0' }
    const { stdout } = await runCommand(['doctor', '--json'], {
      DATABASE_URL: warehouse.url,
      ...ports,
      ...env,
    })
    const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; detail: string }[] }
    return checks.find(({ name }) => name === 'alerts')
  }
  expect(await check()).toMatchObject({ status: 'ok', detail: 'off: INTAKE_ALERT_URL is not set' })
  const address = { INTAKE_ALERT_URL: 'http://127.0.0.1:1/a-token' }
  expect(await check(address)).toMatchObject({
    status: 'warning',
    detail: expect.stringContaining('signature'),
  })
  const signed = { ...address, INTAKE_ALERT_SECRET: 'sixteen characters and more' }
  expect(await check(signed)).toMatchObject({ status: 'ok', detail: expect.stringContaining('signed') })
  await query(
    warehouse.url,
    "insert into intake_ops.alerts (team_id, cause, attempts) values (1, 'inbox_old', 4), (1, 'drift', 2), (2, 'defect', 0)",
  )
  const waiting = await check(signed)
  expect(waiting).toMatchObject({ status: 'warning', detail: '2 could not be posted, tried 4 time(s)' })
  expect(JSON.stringify(waiting)).not.toContain('a-token')
})
