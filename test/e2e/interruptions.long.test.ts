/** A run may be stopped, killed or suspended at any time; the next one leaves the tables of a fresh load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { json, type Received } from '../api/support/service.ts'
import { startCli } from '../support/cli.ts'
import { startOwnTime } from '../support/own-time.ts'
import { runCommand } from '../support/run-command.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { littlePatient, littlePatients, startLittleService } from './support/little-service.ts'
import { openScene, openWarehouse, query, type Scene } from './support/scene.ts'
import { rowVersions } from './support/tables.ts'

/** More patients than fit in one batch, so that a run commits several times. */
const SEVERAL_BATCHES = { patients: 3000, responses: 20, pageSize: 500 }

const SLOW = 'slow=1:30'

// Not all six at the same time: together they would need more connections than Postgres permits.
describe.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s', (signal, code) => {
  it(`ends a run with ${code}, its history says interrupted, and the next run succeeds`, async () => {
    await using scene = await openScene({ patients: 300, faults: 'slow=1:250' })
    const run = startCli(['backfill', '--json'], scene.env)
    await until(() => scene.emulator.control.requests().length > 8)
    using time = startOwnTime()
    run.kill(signal)
    const ended = await run.ended
    expect(ended.code).toBe(code)
    expect(time.milliseconds).toBeLessThan(10_000)
    expect(JSON.parse(ended.stdout)).toMatchObject({ status: 'interrupted' })
    expect(await query(scene.url, 'select status from intake_ops.runs')).toEqual([{ status: 'interrupted' }])
    expect((await storedTables(scene.url)).patients?.length ?? 0).toBeLessThan(300)
    await expectFreshLoad(scene)
  })
})

describe.concurrent('SIGKILL', () => {
  it('at five times during a first load leaves a state that the next run completes', async () => {
    await using scene = await openScene({ ...SEVERAL_BATCHES, faults: SLOW })
    await killOften(scene, 5)
    const before = await query<{ status: string }>(scene.url, 'select status from intake_ops.runs')
    expect(before.length).toBeGreaterThan(0)
    await expectFreshLoad(scene)
    const statuses = await query<{ status: string }>(
      scene.url,
      'select status from intake_ops.runs order by run_id',
    )
    expect(statuses.map(({ status }) => status)).not.toContain('running')
    expect(statuses.at(-1)).toEqual({ status: 'succeeded' })
  })

  it('at five times during a later run, while the service changes, does so too', async () => {
    await using scene = await openScene(SEVERAL_BATCHES)
    const { control } = scene.emulator
    expect((await scene.backfill()).code).toBe(0)
    control.setFaults(SLOW)
    await killOften(scene, 5, (time) => {
      const { patients, forms } = control.world()
      control.deletePatient(patients.at(time)!.id)
      for (let at = 20; at < 3000; at += 50) {
        control.updatePatient(patients.at(at)!.id, {
          last_name: `Name ${time}`,
          custom_fields: { time: String(time) },
        })
      }
      control.renameForm(forms.at(time % 3)!.id, `Form ${time}`)
    })
    // Old responses lose deleted patients, which only a full scan shows.
    await expectFreshLoad(scene, '--full')
  })
})

it.concurrent('a suspended run whose slices another took changes nothing when it resumes, and reports why', async () => {
  await using service = await startLittleService(littlePatients(15))
  await using warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const waiting: (() => void)[] = []
  service.interfere = ({ url }: Received, response) => {
    if (url !== `/v2/patients?page=2` || waiting.length > 0) return false
    // Rendered now, sent much later, with a record that nothing else contains.
    const results = [...service.records.patients.slice(10), littlePatient('ghost', 'seen by one run alone')]
    const stale = { count: 16, next: null, previous: null, results }
    waiting.push(() => json(response, stale))
    return true
  }
  const frozen = startCli(['backfill'], env)
  await until(() => waiting.length === 1)
  await until(
    async () =>
      (await query(warehouse.url, 'select from intake_ops.run_streams')).length === STREAMS.length - 1,
  )
  frozen.kill('SIGSTOP')
  await endItsSession(warehouse.url)
  service.records.patients[3] = littlePatient('p4', 'second')
  const other = await runCommand(['backfill'], env)
  expect(other.code).toBe(0)
  const tables = await storedTables(warehouse.url)
  expect(tables.patients).toHaveLength(15)
  const before = await rowVersions(warehouse.url)

  for (const send of waiting) send()
  frozen.kill('SIGCONT')
  const woken = await frozen.ended
  expect(woken.code).toBe(1)
  expect(woken.stderr).toMatch(
    /another worker has taken over|warehouse was shut down|cannot reach the warehouse/,
  )
  expect(await rowVersions(warehouse.url)).toEqual(before)
  expect(await storedTables(warehouse.url)).toEqual(tables)
  expect((await runCommand(['backfill'], env)).code).toBe(0)
  expect(await rowVersions(warehouse.url)).toEqual(before)
})

it.concurrent('a run that loses its lock session stops every stream and reports why, and the next run succeeds', async () => {
  await using service = await startLittleService(littlePatients(15))
  await using warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const waiting = new Map<string, () => void>()
  service.interfere = ({ url }, response) => {
    if (url !== '/v2/patients?page=2' && url !== '/v2/forms') return false
    waiting.set(url, () => json(response, { count: 0, next: null, results: [] }))
    return true
  }
  const run = startCli(['backfill'], env)
  await until(() => waiting.size === 2)
  await endItsSession(warehouse.url)
  // The forms are done, which can no longer be recorded, while the patients still wait for the service.
  using time = startOwnTime()
  waiting.get('/v2/forms')!()
  const { code, stderr } = await run.ended
  expect(code).toBe(1)
  expect(time.milliseconds).toBeLessThan(15_000)
  expect(stderr).toMatch(/"stream":"patients","code":"(?:shutdown|warehouse_unreachable)"/)
  expect(stderr).toMatch(/^error: (?:the warehouse was shut down|cannot reach the warehouse)/m)
  expect(stderr).not.toContain('fault of intake-sync')
  service.interfere = () => false
  expect((await runCommand(['backfill'], env)).code).toBe(0)
  expect((await storedTables(warehouse.url)).patients).toHaveLength(15)
})

/** Like a restarted database or a failed network: the run no longer holds its locks. */
async function endItsSession(url: string): Promise<void> {
  await query(
    url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name ~ '^intake-sync backfill( worker .*)?$'`,
  )
  await until(async () => (await sessions(url, 'backfill')) === 0)
}

/** Starts a run and kills it `times` times, at times spread over its duration, with a small variation. */
async function killOften(
  scene: Scene,
  times: number,
  between: (time: number) => void = () => {},
): Promise<void> {
  for (let time = 0; time < times; time++) {
    between(time)
    const from = scene.emulator.control.requests().length
    const run = startCli(['backfill'], scene.env)
    // From its first request on: there is nothing to interrupt before.
    await until(() => scene.emulator.control.requests().length > from || run.process.exitCode !== null)
    await sleep((time * 600) / times + Math.random() * 60)
    run.kill('SIGKILL')
    await run.ended
    await nobodyConnected(scene.url)
  }
}

async function expectFreshLoad(scene: Scene, ...args: string[]): Promise<void> {
  scene.emulator.control.setFaults('')
  await nobodyConnected(scene.url)
  expect(await scene.backfill(...args)).toMatchObject({ code: 0 })
  expect(await storedTables(scene.url)).toEqual(expectedOf(scene.emulator.control.world()))
}

/** The server notices a killed client when it next reads from it. */
async function nobodyConnected(url: string): Promise<void> {
  await until(async () => (await sessions(url, '')) === 0)
}

async function sessions(url: string, purpose: string): Promise<number> {
  const rows = await query(
    url,
    'select from pg_stat_activity where datname = current_database() and starts_with(application_name, $1)',
    [`intake-sync ${purpose}`],
  )
  return rows.length
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await condition()); await sleep(10)) {
    if (Date.now() > deadline) throw new Error('waited a minute in vain')
  }
}
