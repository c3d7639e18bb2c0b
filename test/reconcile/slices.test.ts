/** Verifications and replays that workers execute, compared with those of one process. */
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { placeHashOf } from '../../src/extract/backfill-options.ts'
import { openWorker, type Worker, type WorkOptions } from '../../src/extract/work.ts'
import { readRunsNow } from '../../src/operate/alerts/runs-now.ts'
import { WORKS } from '../../src/reconcile/slices.ts'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { configOf, type TeamEntry } from '../e2e/support/teams.ts'
import type { Variables } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

let emulator: Emulator
/** Teams of one service, which have records with the same ids. */
let teams: readonly TeamEntry[]
let there: readonly string[]
let warehouse: TestDatabase
let env: Variables
const working: Worker[] = []

beforeAll(async () => {
  emulator = await startEmulator({
    ...{ port: 0, patients: 60, forms: 3, packets: 2, documents: 2, responses: 20, pageSize: 10 },
  })
  const { base_url: baseUrl, teams: members } = emulator.environments[0]!
  teams = members.slice(0, 2).map(({ api_key: apiKey, api_secret: apiSecret }, at) => {
    return { name: ['north', 'south'][at]!, baseUrl, apiKey, apiSecret }
  })
  there = members.slice(0, 2).map(({ name }) => name)
  warehouse = await openWarehouse()
  env = { ...configOf(teams), DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' }
  const loaded = await runCommand(['backfill'], env)
  expect(loaded.code, loaded.output).toBe(0)
})

afterEach(async () => {
  emulator.control.setFaults('')
  for (const worker of working.splice(0)) await worker.close()
})

afterAll(async () => {
  await emulator.close()
  await warehouse.drop()
})

const rows = <Row extends object>(text: string, values?: unknown[]) => query<Row>(warehouse.url, text, values)

function startWorker(more: Partial<WorkOptions> = {}, known = teams): Worker {
  const worker = openWorker({
    ...{ url: warehouse.url, clock: systemClock, random: Math.random, logger: pino({ enabled: false }) },
    ...{ works: WORKS, onRunEnded: async () => {}, ...more },
    teams: known.map((team) => ({ ...team, apiVersion: 'v2.1', concurrency: 2 })),
  })
  working.push(worker)
  return worker
}

async function plan(...words: string[]): Promise<number> {
  const { code, output, stdout } = await runCommand([...words, '--detach', '--json'], env)
  expect(code, output).toBe(0)
  const planned = JSON.parse(stdout) as { run_id: number; status: string }
  expect(planned.status).toBe('planned')
  return planned.run_id
}

async function ended(run: number): Promise<{ status: string; error: string | null }> {
  let stored: { status: string; error: string | null } | undefined
  await expect
    .poll(
      async () => {
        ;[stored] = await rows<{ status: string; error: string | null }>(
          `select status, error from intake_ops.runs where run_id = $1 and not exists (
             select from intake_ops.slices where run_id = $1 and state in ('pending', 'claimed'))`,
          [run],
        )
        return stored !== undefined
      },
      { timeout: 60_000, interval: 50 },
    )
    .toBe(true)
  return stored!
}

interface Shown {
  readonly verification: null | {
    readonly equal: boolean
    readonly teams: Record<string, { readonly streams: Record<string, Record<string, unknown>> }>
  }
  readonly slices: readonly { readonly result: Record<string, unknown> | null }[]
}

async function shown(run: number): Promise<Shown> {
  const { code, stdout } = await runCommand(['runs', 'show', String(run), '--json'], env)
  expect(code).toBe(0)
  return JSON.parse(stdout) as Shown
}

const claimed = (run: number) =>
  rows<{ owner: string }>(
    `select owner from intake_ops.slices where run_id = $1 and state = 'claimed' and team_id is not null`,
    [run],
  )

/** All that a verification stores, but its number. */
const findings = (run: number) =>
  rows(
    `select to_jsonb(found) - 'run_id' - 'verified_at' as found from intake_ops.verifications found where run_id = $1
     order by team_id, stream`,
    [run],
  )

async function plain(...words: string[]): Promise<number> {
  const { stdout } = await runCommand([...words, '--json'], env)
  return (JSON.parse(stdout) as { run_id: number }).run_id
}

describe('verify --detach', () => {
  it('finds what verify finds, with two workers, and without any reservation of its streams', async () => {
    const run = await plan('verify', '--deep')
    const [reserved] = await rows<{ slices: number }>(
      'select count(*) filter (where reserves)::int as slices from intake_ops.slices where run_id = $1 and team_id is not null',
      [run],
    )
    expect(reserved).toEqual({ slices: 0 })
    expect((await shown(run)).verification).toBe(null)
    expect((await runCommand(['backfill', '--streams', 'forms'], env)).code).toBe(0)
    startWorker({ concurrency: 2 })
    startWorker({ concurrency: 2 })
    expect(await ended(run)).toEqual({ status: 'succeeded', error: null })
    expect(await findings(run)).toHaveLength(teams.length * ALL_STREAMS.length)
    expect(await findings(run)).toEqual(await findings(await plain('verify', '--deep')))
    const { verification, slices } = await shown(run)
    expect(verification!.equal).toBe(true)
    expect(slices.filter(({ result }) => result?.status === 'succeeded')).toHaveLength(slices.length - 1)
    const owners = await rows('select distinct owner from intake_ops.slices where run_id = $1', [run])
    expect(owners).toHaveLength(2)
  })

  it('reports differences of the one team that has them, as counts, with an alert, and repairs them if it is asked to', async () => {
    await rows(`delete from intake.patients where (team_id, id) in (
      select team_id, id from intake.patients join intake.teams team using (team_id)
      where team.name = 'south' order by id limit 2)`)
    await rows(`update intake.forms form set name = 'planted' from intake.teams team
      where team.team_id = form.team_id and team.name = 'south' and form.id = (select min(id) from intake.forms)`)
    startWorker()
    const run = await plan('verify')
    const { status, error } = await ended(run)
    expect(status).toBe('needs_attention')
    expect(error!.split('\n').sort()).toEqual([
      'south/forms: 0 missing, 0 extra, 1 different, 0 repaired',
      'south/patients: 2 missing, 0 extra, 0 different, 0 repaired',
    ])
    const session = await openSession({ url: warehouse.url, purpose: 'test' })
    const { conditions } = await readRunsNow(session.db, ['north', 'south'], null)
    await session.close()
    expect(conditions.map(({ team, cause, stream }) => [team, cause, stream])).toEqual([
      ['south', 'verify_differs', 'forms'],
      ['south', 'verify_differs', 'patients'],
    ])
    const { verification } = await shown(run)
    expect(verification!.equal).toBe(false)
    expect(verification!.teams.south!.streams.patients).toMatchObject({ missing: 2, different: 0 })
    expect(Object.values(verification!.teams.north!.streams).map(({ missing }) => missing)).toEqual(
      ALL_STREAMS.map(() => 0),
    )
    const { stdout } = await runCommand(['runs', 'show', String(run)], env, { columns: 120 })
    expect(stdout).toMatch(/south\/patients +60 +58 +2 +0 +0 +0/)
    expect(stdout).not.toContain('planted')

    for (const worker of working.splice(0)) await worker.close()
    const repairing = await plan('verify', '--repair')
    // Its streams are reserved until they are repaired.
    expect((await runCommand(['backfill', '--streams', 'forms'], env)).code).toBe(3)
    startWorker()
    expect(await ended(repairing)).toEqual({ status: 'succeeded', error: null })
    expect((await shown(repairing)).verification!.teams.south!.streams.patients).toMatchObject({
      ...{ missing: 2, repaired: 2 },
    })
    for (const [at, { name }] of teams.entries())
      expect(await storedTables(warehouse.url, name)).toEqual(expectedOf(emulator.control.world(there[at]!)))
  })

  it('fails for streams that the service does not return, and compares the others', async () => {
    const [north, south] = teams
    const refused = [{ ...north!, apiSecret: 'wrong' }, south!]
    startWorker({}, refused)
    const run = await plan('verify', '--streams', 'forms,packets')
    const { status, error } = await ended(run)
    expect(status).toBe('failed')
    expect(error!.split('\n').map((line) => line.slice(0, 12))).toEqual(['north/forms:', 'north/packet'])
    const { verification } = await shown(run)
    expect(verification!.equal).toBe(false)
    expect(verification!.teams.south!.streams.forms).toMatchObject({ error: null, missing: 0 })
  })

  it('deletes more than a run deletes by itself only where that was allowed', async () => {
    await rows(`insert into intake.packets (team_id, id, name, _version, _origin)
      select team_id, 'extra ' || n, 'x', now(), 'hand' from intake.teams cross join generate_series(1, 51) n
      where name = 'south'`)
    startWorker()
    const repaired = async (...words: string[]) => {
      const run = await plan('verify', '--repair', '--streams', 'packets', ...words)
      const { status } = await ended(run)
      return [status, (await shown(run)).verification!.teams.south!.streams.packets!.repaired]
    }
    expect(await repaired()).toEqual(['needs_attention', 0])
    expect(await repaired('--allow-mass-delete')).toEqual(['succeeded', 51])
  })

  it('is canceled in the hands of a worker', async () => {
    emulator.control.setFaults('slow=1:60000')
    startWorker()
    const run = await plan('verify', '--streams', 'patients,forms')
    const named = `select distinct spec ->> 'source' as source from intake_ops.slices where run_id = $1 and team_id is not null`
    const sources = (await rows<{ source: string }>(named, [run])).map(({ source }) => source)
    expect(sources.toSorted()).toEqual(teams.map(placeHashOf).toSorted())
    await expect.poll(() => claimed(run)).toHaveLength(4)
    // Others end the sessions of a worker by its digits.
    const sessions = `select application_name as name from pg_stat_activity
      where datname = current_database() and application_name like 'intake-sync verify %'`
    await expect.poll(async () => (await rows(sessions)).length).toBeGreaterThan(0)
    for (const { name } of await rows<{ name: string }>(sessions)) expect(name).toMatch(/ worker [\da-f]{8}$/)
    const { stdout } = await runCommand(['runs', 'cancel', String(run), '--json'], env)
    expect(JSON.parse(stdout)).toEqual({ run_id: run, status: 'interrupted', canceled: true })
    expect(await ended(run)).toMatchObject({ status: 'interrupted' })
    expect(await findings(run)).toEqual([])
  })

  it('goes on with another worker when one stops, and is left alone by one that knows backfills only', async () => {
    const old = startWorker({ works: {} })
    const run = await plan('verify', '--streams', 'patients')
    const load = await plan('backfill', '--streams', 'packets')
    await ended(load)
    expect(await claimed(run)).toEqual([])
    await old.close()
    emulator.control.setFaults('slow=1:60000')
    const first = startWorker()
    await expect.poll(() => claimed(run)).toHaveLength(2)
    emulator.control.setFaults('')
    const second = startWorker()
    await first.close()
    expect(await ended(run)).toEqual({ status: 'succeeded', error: null })
    expect(second.trouble()).toBe(null)
    expect(await findings(run)).toEqual(await findings(await plain('verify', '--streams', 'patients')))
  })

  it('leaves the end to workers, so that it takes no receipt', async () => {
    const { code, stderr } = await runCommand(['verify', '--detach', '--receipt', 'receipt.json'], env)
    expect([code, stderr]).toEqual([2, expect.stringContaining('--receipt')])
  })
})

describe('replay --detach', () => {
  it('rebuilds what replay rebuilds, and reserves its streams until then', async () => {
    const spoil = async () => {
      await rows(`update intake.patients set first_name = 'spoiled'`)
      await rows('delete from intake.response_answers')
      await rows('delete from intake.export_cells')
    }
    const tables = () => Promise.all(teams.map(({ name }) => storedTables(warehouse.url, name)))
    const counts = 'sum((result ->> $2)::int)::int'
    const before = await tables()
    await spoil()
    const run = await plan('replay')
    const refused = await runCommand(['backfill', '--streams', 'forms'], env)
    expect(refused.code).toBe(3)
    startWorker({ concurrency: 2 })
    startWorker({ concurrency: 2 })
    expect(await ended(run)).toEqual({ status: 'succeeded', error: null })
    expect(await tables()).toEqual(before)
    const [sum] = await rows<{ rewritten: number }>(
      `select ${counts} as rewritten from intake_ops.slices where run_id = $1`,
      [run, 'rewritten'],
    )
    await spoil()
    const alone = JSON.parse((await runCommand(['replay', '--json'], env)).stdout) as {
      streams: Record<string, { rewritten: number }>
    }
    const rewritten = Object.values(alone.streams).reduce((total, each) => total + each.rewritten, 0)
    expect(sum).toEqual({ rewritten })
    expect(rewritten).toBeGreaterThan(120)
    expect(await tables()).toEqual(before)
    const { stdout } = await runCommand(['runs', 'show', String(run)], env, { columns: 120 })
    expect(stdout).toMatch(/south\/patients +succeeded +60 +60 +0/)
  })

  it('matches the columns of exports with questions anew, though no file differs', async () => {
    const matched = () => rows('select * from intake.export_columns order by team_id, export_id, position')
    const before = await matched()
    await rows(`update intake.export_columns set question_id = 'spoiled'`)
    const worker = startWorker()
    const run = await plan('replay', '--streams', 'exports')
    expect((await ended(run)).status).toBe('succeeded')
    expect(await matched()).toEqual(before)
    // Nothing of a run that ended is still under way: only on a slow machine does it take long enough to be stored.
    await worker.close()
    const underWay = `select phase from intake_ops.run_progress where run_id = $1 and phase <> 'ended'`
    expect(await rows(underWay, [run])).toEqual([])
  })

  it('excludes --inbox', async () => {
    const words = ['replay', '--inbox', '--since', '2026-01-01T00:00:00Z', '--detach']
    expect((await runCommand(words, env)).code).toBe(2)
  })

  it('of one team plans the streams of that team only', async () => {
    const run = await plan('replay', '--team', 'south', '--streams', 'forms,packets')
    const planned = `select name, stream from intake_ops.slices join intake.teams using (team_id) where run_id = $1 order by 2`
    expect(await rows(planned, [run])).toEqual([
      ...['forms', 'packets'].map((stream) => ({ name: 'south', stream })),
    ])
    expect((await runCommand(['runs', 'cancel', String(run)], env)).code).toBe(0)
  })
})
