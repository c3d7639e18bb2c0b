/** Workers that are killed in the middle of a verification or a replay: real processes. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { connect, openScene, type Scene } from '../e2e/support/scene.ts'
import { type Running, startCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene
const working: Running[] = []

beforeAll(async () => {
  scene = await openScene()
  expect((await scene.backfill()).code).toBe(0)
})

afterAll(async () => {
  for (const worker of working) worker.kill('SIGKILL')
  await Promise.all(working.map(({ ended }) => ended))
  await scene[Symbol.asyncDispose]()
})

async function startWorker(): Promise<Running> {
  const worker = startCli(['work', '--concurrency', '2'], { ...scene.env, INTAKE_ADMIN_PORT: '0' })
  working.push(worker)
  await worker.said('ready: executes runs of')
  return worker
}

async function plan(...words: string[]): Promise<number> {
  const { stdout } = await runCommand([...words, '--detach', '--json'], scene.env)
  return (JSON.parse(stdout) as { run_id: number }).run_id
}

const ended = (run: number) =>
  expect
    .poll(
      () =>
        scene.query(
          `select status from intake_ops.runs where run_id = $1 and not exists (
             select from intake_ops.slices where run_id = $1 and state in ('pending', 'claimed'))`,
          [run],
        ),
      { timeout: 60_000 },
    )
    .toEqual([{ status: 'succeeded' }])

const claims = (run: number) =>
  scene.query<{ owner: string }>(
    `select owner from intake_ops.slices where run_id = $1 and state = 'claimed'`,
    [run],
  )

const takeovers = async (run: number) => {
  const [sum] = await scene.query<{ taken: number }>(
    'select sum(takeovers)::int as taken from intake_ops.slices where run_id = $1',
    [run],
  )
  return sum!.taken
}

const findings = (run: number) =>
  scene.query(
    `select to_jsonb(found) - 'run_id' - 'verified_at' as found from intake_ops.verifications found where run_id = $1
     order by stream`,
    [run],
  )

it('a verification whose worker was killed finds what one process finds', async () => {
  scene.emulator.control.setFaults('slow=1:60000')
  const run = await plan('verify')
  const victim = await startWorker()
  await expect.poll(() => claims(run)).toHaveLength(2)
  victim.kill('SIGKILL')
  await victim.ended
  scene.emulator.control.setFaults('')
  await Promise.all([startWorker(), startWorker()])
  await ended(run)
  expect(await takeovers(run)).toBe(2)
  const { stdout } = await runCommand(['verify', '--json'], scene.env)
  const plain = JSON.parse(stdout) as { run_id: number }
  expect(await findings(run)).toEqual(await findings(plain.run_id))
})

it('a replay whose worker was killed while it rewrote rows leaves the tables as they were', async () => {
  const before = await storedTables(scene.url, 'default')
  await scene.query(`update intake.patients set first_name = 'spoiled'`)
  for (const worker of working) worker.kill('SIGKILL')
  await Promise.all(working.splice(0).map((worker) => worker.ended))
  const locker = await connect(scene.url)
  await locker.query('begin')
  await locker.query('select from intake.patients for update')
  const run = await plan('replay', '--streams', 'patients')
  const victim = await startWorker()
  const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
    and application_name like 'intake-sync load %'`
  await expect.poll(async () => (await scene.query(waiting)).length).toBeGreaterThan(0)
  victim.kill('SIGKILL')
  await victim.ended
  await locker.query('rollback')
  await locker.end()
  await startWorker()
  await ended(run)
  expect(await storedTables(scene.url, 'default')).toEqual(before)
  expect(before).toEqual(expectedOf(scene.emulator.control.world()))
})
