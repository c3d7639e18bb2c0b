/** `serve` as a process: everything the service sends reaches the tables, whenever the process is stopped. */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { sign } from '../../src/core/signature.ts'
import { wallClock } from '../../src/emulator/clock.ts'
import { startActivity } from '../../src/emulator/world/clinic-changes.ts'
import { LIMITS } from '../../src/ingest/http/in-flight.ts'
import { callerOf } from '../emulator/caller.ts'
import { startCli } from '../support/cli.ts'
import { freePort } from '../support/free-port.ts'
import { startOwnTime } from '../support/own-time.ts'
import { runCommand } from '../support/run-command.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { openScene, openWarehouse, query, type Scene } from './support/scene.ts'
import { ANYWHERE, createWebhook, quiet, settled, startServing, until } from './support/serving.ts'

const SECRET = 'whsec_canary-7f3a'

function send(url: string, event: object | string, secret = SECRET): Promise<Response> {
  const body = typeof event === 'string' ? event : JSON.stringify(event)
  return fetch(url, {
    method: 'POST',
    body,
    headers: { 'x-service-signature': sign(Buffer.from(body), secret) },
  })
}

function patientEvent(id: string, name: string) {
  const stamp = new Date().toISOString()
  const data = { ...PATIENT, id, first_name: name, created_at: stamp, updated_at: stamp }
  return { id: `event-${id}-${name}`, timestamp: stamp, event_type: 'updated', source: 'patient', data }
}

const PATIENT = {
  ...{ external_id: null, last_name: 'Lee', email: null, phone_number: null, date_birth: null },
  ...{ sex_at_birth: null, provider: null, address: null, address2: null, city: null, state: null },
  ...{ zipcode: null, emergency_contact: null, patient_tags: [], custom_fields: {} },
}

/** Events that the service reports as delivered and that are not in the inbox. */
async function lost(scene: Scene): Promise<readonly string[]> {
  const attempts = await callerOf(scene.emulator).rows('/v2/webhooks/events')
  const sent = attempts
    .filter(({ status }) => status === 'succeeded')
    .map(({ event_id }) => event_id as string)
  const stored = await query<{ event_id: string }>(scene.url, 'select event_id from intake_raw.inbox')
  const ids = new Set(stored.map(({ event_id }) => event_id))
  return sent.filter((id) => !ids.has(id))
}

describe('serve with a changing service', () => {
  it('loses nothing when stopped and restarted: after one backfill the tables equal the world', async () => {
    await using scene = await openScene()
    const { control } = scene.emulator
    expect((await scene.backfill()).code).toBe(0)
    const env = { ...scene.env, INTAKE_WEBHOOK_PORT: String(await freePort()) }
    const first = await startServing(env)
    const id = await createWebhook(scene.env, first.document.webhooks!)
    const ofOld = control.world().messages.end
    const still = new AbortController()
    startActivity(control.world(), 40, 'serve', wallClock, still.signal)
    const stored = () => query(scene.url, 'select from intake_raw.inbox')
    await until('events come', async () => (await stored()).length > 30)
    const stopped = await first.stop()
    expect({ code: stopped.code, stdout: JSON.parse(stopped.stdout) }).toMatchObject({ code: 0 })
    const before = (await stored()).length
    const second = await startServing(env)
    await until('events come again', async () => (await stored()).length > before + 30)
    still.abort()
    // Failed events are not waited for: their retries take hours.
    expect((await runCommand(['webhooks', 'delete', id], { ...ANYWHERE, ...scene.env })).code).toBe(0)
    await settled(scene)
    expect(await lost(scene)).toEqual([])
    expect(await second.metric('intake_events_received_total{team="default"}')).toBeGreaterThan(30)
    expect(await second.get('/readyz')).toMatchObject({ status: 200 })
    expect((await second.stop('SIGINT')).code).toBe(0)

    await quiet(scene, ofOld)
    expect((await scene.backfill('--full', '--allow-mass-delete')).code).toBe(0)
    expect(await storedTables(scene.url)).toMatchObject(expectedOf(control.world()))
    const { stdout } = await runCommand(['status', '--json'], scene.env)
    const [team] = (JSON.parse(stdout) as { teams: { webhooks: object; inbox: object }[] }).teams
    expect(team).toMatchObject({ inbox: { pending: 0, dead_letters: 0 }, refetches: 0 })
    expect(team!.webhooks).toMatchObject({ deliveries_missing: 0 })
  })

  it('shows a change in the tables within a second', async () => {
    await using scene = await openScene()
    expect((await scene.backfill()).code).toBe(0)
    const serving = await startServing(scene.env)
    await createWebhook(scene.env, serving.document.webhooks!)
    const { control } = scene.emulator
    const { id } = control.world().patients.at(3)!
    // Secrets are looked up at most once a second, and were at the start.
    await sleep(1_100)
    control.updatePatient(id, { city: 'Before' })
    await settled(scene)
    const text = 'select city from intake.patients where id = $1'
    // The shortest of several: other processes share the machine.
    const taken: number[] = []
    while (taken.length < 20 && !taken.some((milliseconds) => milliseconds < 1_000)) {
      const city = `Elsewhere ${taken.length}`
      using time = startOwnTime()
      control.updatePatient(id, { city })
      await until('it is there', async () => {
        const [row] = await query<{ city: string }>(scene.url, text, [id])
        return row!.city === city
      })
      taken.push(time.milliseconds)
    }
    expect(Math.min(...taken)).toBeLessThan(1_000)
    expect((await serving.stop()).code).toBe(0)
  })
})

describe('the parts of serve', () => {
  it('without API credentials it ingests and drains, and reports what is off', async () => {
    await using warehouse = await openWarehouse({ empty: true })
    const env = { DATABASE_URL: warehouse.url, INTAKE_WEBHOOK_SECRETS: `other, ${SECRET}` }
    const serving = await startServing(env)
    expect(serving.document).toMatchObject({
      webhooks: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/webhooks$/),
      next_backfill: null,
      off: {
        refetches: 'no API credentials for default',
        schedule: 'no API credentials for default',
      },
    })
    expect(await serving.get('/healthz')).toMatchObject({ status: 200 })
    expect(await serving.get('/readyz')).toMatchObject({ status: 200 })
    expect((await send(serving.document.webhooks!, patientEvent('p-1', 'Ann'), 'wrong')).status).toBe(400)
    expect((await send(serving.document.webhooks!, 'not JSON')).status).toBe(200)
    expect((await send(`${serving.document.webhooks}/nobody`, {})).status).toBe(404)
    expect((await send(serving.document.webhooks!, patientEvent('p-1', 'Ann'))).status).toBe(200)
    expect((await send(`${serving.document.webhooks}/default`, patientEvent('p-1', 'Anne'))).status).toBe(200)
    await until('the row is there', async () => {
      const rows = await query<{ first_name: string }>(
        warehouse.url,
        'select first_name from intake.patients',
      )
      return rows[0]?.first_name === 'Anne'
    })
    expect(await serving.metric('intake_events_rejected_total{team="default",reason="signature"}')).toBe(1)
    expect(await serving.metric('intake_events_drained_total{team="default",outcome="dead"}')).toBe(1)
    const { code, output } = await serving.stop()
    expect(code).toBe(0)
    const status = await runCommand(['status', '--json'], env)
    expect(JSON.parse(status.stdout)).toMatchObject({
      teams: [{ inbox: { pending: 0, dead_letters: 1 }, webhooks: { events_last_day: 3 } }],
    })
    expect(output + status.output).not.toMatch(/canary|Anne|p-1/)
  })

  it('each can be off alone, and stored events wait for a process that drains', async () => {
    await using warehouse = await openWarehouse()
    const env = { DATABASE_URL: warehouse.url, INTAKE_WEBHOOK_SECRETS: SECRET }
    const ingester = await startServing(env, '--no-drain', '--no-schedule')
    expect(ingester.document.off).toEqual({
      drain: '--no-drain',
      schedule: '--no-schedule',
      work: 'no API credentials for default',
    })
    expect((await send(ingester.document.webhooks!, patientEvent('p-1', 'Ann'))).status).toBe(200)
    const drains = `select application_name from pg_stat_activity
      where datname = current_database() and application_name ~ 'drain|listen'`
    expect(await query(warehouse.url, drains)).toEqual([])
    const rows = () => query(warehouse.url, 'select id from intake.patients')
    expect(await rows()).toEqual([])
    expect(await ingester.metric('intake_inbox_pending_events{team="default"}')).toBe(1)
    const drain = await startServing(env, '--no-ingest', '--cron', 'off')
    expect(drain.document).toMatchObject({
      webhooks: null,
      off: { ingest: '--no-ingest', schedule: '--cron off' },
    })
    await until('it is drained', async () => (await rows()).length === 1)
    expect(await query(warehouse.url, drains)).not.toEqual([])
    expect((await send(ingester.document.webhooks!, patientEvent('p-2', 'Bea'))).status).toBe(200)
    await until('the other is drained', async () => (await rows()).length === 2)
    const ended = await Promise.all([ingester.stop(), drain.stop()])
    expect(ended.map(({ code }) => code)).toEqual([0, 0])
  })

  it('prints the time of the next backfill; --cron takes precedence over INTAKE_CRON', async () => {
    await using scene = await openScene({ patients: 0 })
    const env = { ...scene.env, INTAKE_CRON: '0 3 * * *', TZ: 'UTC' }
    const serving = await startServing(env, '--cron', '30 5 * * *')
    expect(serving.document).toMatchObject({
      next_backfill: expect.stringMatching(/T05:30:00\.000Z$/),
      off: {},
    })
    expect((await serving.stop()).code).toBe(0)
    const wrong = await runCommand(['serve', '--cron', 'daily'], env)
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/cron expression of five fields/) })
  })

  it('with INTAKE_CRON_MISSED=run it backfills once for the nights that were missed', async () => {
    await using scene = await openScene({ patients: 3 })
    await query(scene.url, "insert into intake.teams (name) values ('default') on conflict do nothing")
    await query(
      scene.url,
      `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
       select team_id, 'backfill', now() - interval '5 days', gen_random_uuid() from intake.teams`,
    )
    const runs = () => query(scene.url, 'select kind, status from intake_ops.runs')
    // Twelve hours from now, so that no other time comes during the test.
    const hour = (new Date().getHours() + 12) % 24
    const env = { ...scene.env, INTAKE_CRON: `0 ${hour} * * *`, INTAKE_CRON_MISSED: 'run' }
    const serving = await startServing(env)
    await until('it is run', async () => JSON.stringify(await runs()).includes('succeeded'))
    expect((await serving.stop()).code).toBe(0)
    expect(await runs()).toEqual([{ kind: 'backfill', status: 'succeeded' }])
  })
})

describe('the process of serve', () => {
  it('also runs on the embedded warehouse, and leaves no process of it behind', async () => {
    const serving = await startServing({ INTAKE_WEBHOOK_SECRETS: SECRET })
    expect((await send(serving.document.webhooks!, patientEvent('p-1', 'Ann'))).status).toBe(200)
    await until('it is drained', async () => {
      const drained = 'intake_events_drained_total{team="default",outcome="done"}'
      return (await serving.metric(drained)) === 1
    })
    expect((await serving.stop('SIGINT')).code).toBe(0)
    await expect(fetch(serving.document.admin)).rejects.toThrow()
  })

  it('ends at once on a second signal, even while a client is sending', async () => {
    await using warehouse = await openWarehouse()
    const serving = await startServing({
      ...{ DATABASE_URL: warehouse.url, INTAKE_WEBHOOK_SECRETS: SECRET, LOG_LEVEL: 'info' },
    })
    const { port } = new URL(serving.document.webhooks!)
    const slow = connect(Number(port), '127.0.0.1')
    slow.on('error', () => {})
    slow.write('POST /webhooks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nx-service-signature: 0\r\n\r\n{')
    await until('it is taken', async () => (await serving.metric('intake_ingest_in_flight_events')) === 1)
    serving.running.process.kill('SIGTERM')
    await serving.running.said('stopping: ')
    // One that follows within half a second is the same Ctrl-C, passed on by npm.
    await sleep(700)
    expect(serving.running.process.exitCode).toBeNull()
    using time = startOwnTime()
    expect((await serving.stop()).code).toBe(143)
    // The first signal waits longer for a client.
    expect(time.milliseconds).toBeLessThan(LIMITS.closeMs - 1_000)
    slow.destroy()
  })

  it('exits with wrong usage for a port in use, and names the variable', async () => {
    await using warehouse = await openWarehouse()
    const env = { ...ANYWHERE, DATABASE_URL: warehouse.url }
    const serving = await startServing(env)
    for (const [variable, taken] of [
      ['INTAKE_WEBHOOK_PORT', serving.document.webhooks!],
      ['INTAKE_ADMIN_PORT', serving.document.admin],
    ] as const) {
      const { port } = new URL(taken)
      const run = await startCli(['serve', '--json'], { ...env, [variable]: port }).ended
      expect(run.code).toBe(2)
      expect(JSON.parse(run.stdout)).toMatchObject({
        error: { code: 'port_unusable', message: `port ${port} is in use` },
      })
      expect(run.stderr).toContain(variable)
    }
    expect((await serving.stop()).code).toBe(0)
  })
})
