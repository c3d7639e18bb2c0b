/** Runs that are planned and executed by workers: real processes, over teams some of which have the same ids. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { connect, openWarehouse, query, SMALL } from '../e2e/support/scene.ts'
import { configOf, type TeamEntry } from '../e2e/support/teams.ts'
import { type Running, startCli, type Variables } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

interface Member extends TeamEntry {
  readonly emulator: Emulator
  /** Name of the team at the service. */
  readonly there: string
}

/** Two services with one seed: the first team of one has the same record ids as that of the other. */
let twins: readonly [Emulator, Emulator]
let members: readonly Member[]
let warehouse: TestDatabase
let env: Variables
const working: Running[] = []

beforeAll(async () => {
  const world = { ...SMALL, patients: 15, forms: 3, packets: 2, documents: 2, responses: 12 }
  twins = [await startEmulator(world), await startEmulator(world)]
  members = twins.flatMap((emulator, at) => {
    const { base_url: baseUrl, teams } = emulator.environments[0]!
    return teams.slice(0, 2 - at).map(({ name, api_key: apiKey, api_secret: apiSecret }, place) => {
      return { name: `${'ab'[at]}.${place}`, baseUrl, apiKey, apiSecret, emulator, there: name }
    })
  })
  warehouse = await openWarehouse()
  const plain = members.map(({ name, baseUrl, apiKey, apiSecret }) => ({ name, baseUrl, apiKey, apiSecret }))
  env = { ...configOf(plain), DATABASE_URL: warehouse.url, INTAKE_ADMIN_PORT: '0', LOG_LEVEL: 'warn' }
})

afterEach(async () => {
  for (const emulator of twins) emulator.control.setFaults('')
  for (const worker of working) worker.kill('SIGKILL')
  await Promise.all(working.splice(0).map(({ ended }) => ended))
})

afterAll(async () => {
  for (const emulator of twins) await emulator.close()
  await warehouse.drop()
})

const rows = <Row extends object>(text: string, values?: unknown[]) => query<Row>(warehouse.url, text, values)

async function startWorker(...words: string[]): Promise<Running> {
  const worker = startCli(['work', ...words], env)
  working.push(worker)
  await worker.said('ready: executes runs of')
  return worker
}

async function plan(...words: string[]): Promise<number> {
  const { code, stdout } = await runCommand(['backfill', '--detach', '--json', ...words], env)
  expect(code).toBe(0)
  return (JSON.parse(stdout) as { run_id: number }).run_id
}

/** Waits for the end of a run; returns how it is stored. */
async function ended(run: number) {
  let stored: { status: string; error: string | null } | undefined
  await expect
    .poll(
      async () => {
        ;[stored] = await rows<{ status: string; error: string | null }>(
          `select status, error from intake_ops.runs where run_id = $1 and finished_at is not null
             and not exists (select from intake_ops.slices where run_id = $1 and state in ('pending', 'claimed'))`,
          [run],
        )
        return stored !== undefined
      },
      { timeout: 40_000, interval: 50 },
    )
    .toBe(true)
  return stored!
}

async function expectWorlds(): Promise<void> {
  for (const { name, emulator, there } of members)
    expect(await storedTables(warehouse.url, name), name).toEqual(expectedOf(emulator.control.world(there)))
}

const slices = (run: number) =>
  rows<{ team: string | null; stream: string; state: string; owner: string; takeovers: number }>(
    `select team.name as team, stream, state, owner, takeovers from intake_ops.slices left join intake.teams team using (team_id)
     where run_id = $1 order by slice_id`,
    [run],
  )

/** The slices of the run that workers have now. */
async function claimed(run: number) {
  const all = await slices(run)
  return all.filter(({ state }) => state === 'claimed')
}

describe('a detached run', () => {
  it('is executed by two workers: every slice once, every table equal to its source', async () => {
    const run = await plan()
    expect(await slices(run)).toHaveLength(members.length * STREAMS.length + 1)
    const pending = await runCommand(['runs', 'show', String(run)], env)
    expect(pending.stdout).toContain(`run ${run}, backfill: running`)
    expect(pending.stdout).toContain('waiting for a worker: none has claimed a slice')
    expect(pending.stdout).toContain(
      `left: ${members.length * STREAMS.length} streams; none being read; time left: unknown`,
    )
    await Promise.all([startWorker('--concurrency', '2'), startWorker('--concurrency', '2')])
    expect(await ended(run)).toEqual({ status: 'succeeded', error: null })
    await expectWorlds()
    const done = await slices(run)
    expect(done.filter(({ state, takeovers }) => state === 'done' && takeovers === 0)).toEqual(done)
    expect(new Set(done.map(({ owner }) => owner)).size).toBe(2)
    expect(
      await rows(
        `select count(*)::int as streams, count(*) filter (where status = 'succeeded')::int as ok from intake_ops.run_streams
         where run_id = $1`,
        [run],
      ),
    ).toEqual([{ streams: members.length * STREAMS.length, ok: members.length * STREAMS.length }])
    const shown = await runCommand(['runs', 'show', String(run), '--json'], env)
    expect((JSON.parse(shown.stdout) as { slices: unknown[] }).slices).toHaveLength(done.length)
  })

  it('reserves its streams: no other run of them begins until it is canceled, which needs no worker', async () => {
    const run = await plan('--streams', 'patients,forms', '--team', 'a.0')
    for (const words of [
      ['backfill', '--team', 'a.0', '--streams', 'forms'],
      ['backfill', '--team', 'a.0', '--detach'],
      ['replay', '--streams', 'patients'],
    ]) {
      const { code, stderr } = await runCommand(words, env)
      expect([words, code]).toEqual([words, 3])
      expect(stderr.replace(/\s+/g, ' ')).toContain(`intake-sync runs cancel ${run}`)
    }
    expect((await runCommand(['backfill', '--team', 'a.0', '--streams', 'packets'], env)).code).toBe(0)
    expect((await runCommand(['backfill', '--team', 'b.0', '--streams', 'forms'], env)).code).toBe(0)
    const canceled = await runCommand(['runs', 'cancel', String(run), '--json'], env)
    expect(JSON.parse(canceled.stdout)).toEqual({ run_id: run, status: 'interrupted', canceled: true })
    expect((await slices(run)).map(({ state }) => state)).toEqual(['canceled', 'canceled', 'canceled'])
    expect((await ended(run)).error).toMatch(
      /^a\.0\/patients: canceled by database user .*, with intake-sync runs cancel; the next run continues\na\.0\/forms: canceled/,
    )
    expect((await runCommand(['backfill', '--team', 'a.0', '--streams', 'forms'], env)).code).toBe(0)
  })

  it('is canceled in the hands of a worker, which goes on with others', async () => {
    for (const emulator of twins) emulator.control.setFaults('slow=1:60000')
    const run = await plan('--streams', 'patients')
    await startWorker()
    await expect.poll(() => claimed(run)).toHaveLength(members.length)
    const canceled = await runCommand(['runs', 'cancel', String(run), '--json'], env)
    expect(JSON.parse(canceled.stdout)).toEqual({ run_id: run, status: 'interrupted', canceled: true })
    for (const emulator of twins) emulator.control.setFaults('')
    const next = await plan('--streams', 'patients')
    expect((await ended(next)).status).toBe('succeeded')
  })

  it('loses nothing when a worker is killed: another takes its slices over, and does not wait until they are silent', async () => {
    for (const emulator of twins) emulator.control.setFaults('slow=1:60000')
    const run = await plan('--full')
    const victim = await startWorker()
    await expect.poll(async () => (await claimed(run)).length).toBe(8)
    const before = await claimed(run)
    const peer = await startWorker()
    victim.kill('SIGKILL')
    await victim.ended
    // So that only its lock can say that it is gone.
    await rows(
      `update intake_ops.slices set heartbeat_at = now() + interval '1 hour' where run_id = $1 and owner = $2
         and state = 'claimed'`,
      [run, before[0]!.owner],
    )
    await expect
      .poll(async () => {
        const now = await claimed(run)
        return now.filter(({ owner, takeovers }) => owner !== before[0]!.owner && takeovers === 1).length
      })
      .toBeGreaterThan(0)
    for (const emulator of twins) emulator.control.setFaults('')
    peer.kill('SIGTERM')
    expect((await peer.ended).code).toBe(0)
    await startWorker()
    expect((await ended(run)).status).toBe('succeeded')
    await expectWorlds()
  })

  it('begins a stream again after a temporary failure to store its report, also while its worker has others', async () => {
    twins[1].control.setFaults('slow=1:60000')
    const busy = await plan('--streams', 'patients', '--team', 'b.0')
    await startWorker()
    await expect.poll(() => claimed(busy)).toHaveLength(1)
    await rows(`create sequence intake_ops.tries`)
    await rows(`
      create function intake_ops.refuse_first() returns trigger language plpgsql as $$
      begin
        if nextval('intake_ops.tries') = 1 then raise exception 'not yet' using errcode = '40001'; end if;
        return new;
      end $$`)
    await rows(`create trigger refuse_first before insert on intake_ops.run_streams
      for each row execute function intake_ops.refuse_first()`)
    const run = await plan('--streams', 'forms', '--team', 'a.0')
    expect((await ended(run)).status).toBe('succeeded')
    await rows('drop function intake_ops.refuse_first cascade')
    await rows('drop sequence intake_ops.tries')
    expect((await slices(run)).map(({ takeovers }) => takeovers)).toEqual([1, 0])
    expect(await claimed(busy)).toHaveLength(1)
    twins[1].control.setFaults('')
    await runCommand(['runs', 'cancel', String(busy)], env)
    await ended(busy)
  })

  it('is closed once, also when the worker is killed while it closes', async () => {
    // Only the end of a run reads it.
    const locker = await connect(warehouse.url)
    await locker.query('begin')
    await locker.query('lock table intake_ops.classifications in access exclusive mode')
    const run = await plan('--streams', 'webhook_configs', '--team', 'b.0')
    const victim = await startWorker()
    await expect.poll(async () => (await claimed(run)).map(({ stream }) => stream)).toEqual([''])
    victim.kill('SIGKILL')
    await victim.ended
    await locker.query('rollback')
    await locker.end()
    await startWorker()
    expect((await ended(run)).status).toBe('succeeded')
    expect((await slices(run)).map(({ state, takeovers }) => [state, takeovers])).toEqual([
      ['done', 0],
      ['done', 1],
    ])
  })

  it('ends as failed where the service refuses the credentials, or a stream ends each worker; the others are loaded', async () => {
    const [first, ...others] = members.map(({ name, baseUrl, apiKey, apiSecret }) => ({
      ...{ name, baseUrl, apiKey, apiSecret },
    }))
    const wrong = { ...env, ...configOf([{ ...first!, apiSecret: 'wrong' }, ...others]) }
    const run = await plan()
    await rows(
      `update intake_ops.slices set takeovers = 11 where run_id = $1 and stream = 'forms'
         and team_id = (select team_id from intake.teams where name = 'b.0')`,
      [run],
    )
    const worker = startCli(['work'], wrong)
    working.push(worker)
    const { status, error } = await ended(run)
    expect(status).toBe('failed')
    expect(error).not.toMatch(/^a\.1/m)
    expect(error).toContain('b.0/forms: 11 workers ended while they read it')
    const outcomes = await rows<{ team: string; status: string; streams: number }>(
      `select team.name as team, status, count(*)::int as streams from intake_ops.run_streams join intake.teams team using (team_id)
       where run_id = $1 group by 1, 2 order by 1, 2`,
      [run],
    )
    expect(outcomes).toEqual([
      { team: 'a.0', status: 'failed', streams: STREAMS.length },
      { team: 'a.1', status: 'succeeded', streams: STREAMS.length },
      { team: 'b.0', status: 'failed', streams: 1 },
      { team: 'b.0', status: 'succeeded', streams: STREAMS.length - 1 },
    ])
  })
})
