/** The rehearsal of docker-compose.yml, its commands as processes of this machine: each waits for what it depends on. */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { type Running, startCli } from '../support/cli.ts'
import { freePort } from '../support/free-port.ts'

interface Service {
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: { readonly test?: readonly string[] }
}

it('runs to its end: a webhook that is received, a backfill, a verification after which all is equal', async () => {
  const warehouse = await openWarehouse({ empty: true })
  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-rehearsal-'))
  const [service, webhooks, admin] = [await freePort(), await freePort(), await freePort()]
  const started = new Map<string, Promise<Running>>()
  onTestFinished(async () => {
    for (const each of started.values()) (await each).kill()
    await Promise.all([...started.values()].map(async (each) => (await each).ended))
    rmSync(folder, { recursive: true })
    await warehouse.drop()
  })
  for (const name of ['database_url', 'database_url_owner']) writeFileSync(join(folder, name), warehouse.url)
  writeFileSync(join(folder, 'encryption_key'), randomBytes(32).toString('base64'))
  const text = readFileSync(resolve(import.meta.dirname, '../../docker-compose.yml'), 'utf8')
    .replaceAll('4010', String(service))
    .replaceAll(':8080', `:${webhooks}`)
    .replaceAll(':9090', `:${admin}`)
    .replaceAll('/run/secrets', folder)
    .replace('--patients, "2000"', '--patients, "150"')
  const { services } = parse(text, { merge: true }) as { services: Readonly<Record<string, Service>> }
  const ports = { INTAKE_WEBHOOK_PORT: String(webhooks), INTAKE_ADMIN_PORT: String(admin) }

  const start = (name: string): Promise<Running> => {
    const { command = [], environment = {}, depends_on: waits = {} } = services[name]!
    const begin = async () => {
      for (const [other, { condition }] of Object.entries(waits)) {
        if (other === 'rehearsal-postgres') continue
        const running = await start(other)
        if (condition === 'service_healthy') await isHealthy(services[other]!, running)
        else expect([other, (await running.ended).code]).toEqual([other, 0])
      }
      return startCli(command, { ...environment, ...ports })
    }
    const begun = started.get(name) ?? begin()
    started.set(name, begun)
    return begun
  }
  const rehearsal = await start('rehearsal')
  const { code, output } = await rehearsal.ended
  expect([code, output]).toEqual([0, expect.stringContaining('patients')])
  expect([...started.keys()].toSorted()).toEqual(
    Object.keys(services)
      .filter((name) => /^(?:emulator|rehearsal)/.test(name) && name !== 'rehearsal-postgres')
      .toSorted(),
  )
  const [{ events, patients }] = (await query<{ events: number; patients: number }>(
    warehouse.url,
    `select (select count(*)::int from intake_raw.inbox where status = 'done') as events,
       (select count(*)::int from intake.patients where _deleted_at is null) as patients`,
  )) as [{ events: number; patients: number }]
  expect(events).toBeGreaterThan(0)
  expect(patients).toBeGreaterThan(100)
  const ingester = await started.get('rehearsal-ingester')!
  ingester.process.kill('SIGTERM')
  expect((await ingester.ended).code).toBe(0)
}, 300_000)

/** By its own check, as often as it takes while it runs. */
async function isHealthy({ healthcheck }: Service, { process: own, ended }: Running): Promise<void> {
  const [, program, ...words] = healthcheck!.test!
  expect(program).toBe('node')
  const look = () => spawnSync(process.execPath, words, { timeout: 30_000 }).status
  while (look() !== 0) {
    if (own.exitCode !== null) throw new Error(`it ended before it was healthy: ${(await ended).output}`)
    await sleep(300)
  }
}
