/** A worker that stops for longer than the others wait changes nothing when it resumes; a backfill that can claim nothing ends. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { openSession } from '../../src/warehouse/connect.ts'
import { lockForSession, unlock } from '../../src/warehouse/locks.ts'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { type Running, startCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene
const working: Running[] = []

beforeAll(async () => {
  scene = await openScene()
})

afterEach(async () => {
  for (const worker of working) worker.kill('SIGKILL')
  await Promise.all(working.splice(0).map(({ ended }) => ended))
})

afterAll(() => scene[Symbol.asyncDispose]())

async function startWorker(): Promise<Running> {
  const worker = startCli(['work'], { ...scene.env, INTAKE_ADMIN_PORT: '0' })
  working.push(worker)
  await worker.said('ready: executes runs of')
  return worker
}

const owners = (run: number, state: string) =>
  scene.query<{ owner: string; takeovers: number }>(
    'select owner, takeovers from intake_ops.slices where run_id = $1 and state = $2 order by slice_id',
    [run, state],
  )

it('a worker that was stopped has lost its slices and its sessions, and works on as another', async () => {
  scene.emulator.control.setFaults('slow=1:60000')
  const { stdout } = await runCommand(['backfill', '--detach', '--json'], scene.env)
  const run = (JSON.parse(stdout) as { run_id: number }).run_id
  const stopped = await startWorker()
  await expect.poll(() => owners(run, 'claimed')).toHaveLength(4)
  const [{ owner } = { owner: '' }] = await owners(run, 'claimed')
  stopped.kill('SIGSTOP')
  scene.emulator.control.setFaults('')
  await startWorker()
  await expect
    .poll(
      () => scene.query('select from intake_ops.runs where run_id = $1 and finished_at is not null', [run]),
      {
        timeout: 120_000,
      },
    )
    .toHaveLength(1)
  const sessions = await scene.query(
    `select from pg_stat_activity where datname = current_database() and application_name like 'intake-sync % worker ' || right($1, 8)`,
    [owner],
  )
  expect(sessions).toEqual([])
  const before = await storedTables(scene.url, 'default')
  expect(before).toEqual(expectedOf(scene.emulator.control.world()))
  const done = await owners(run, 'done')
  expect(done.filter((slice) => slice.owner === owner)).toEqual([])
  expect(done.filter(({ takeovers }) => takeovers === 1)).toHaveLength(4)
  const ended = await scene.query('select * from intake_ops.runs where run_id = $1', [run])

  stopped.kill('SIGCONT')
  await stopped.said('a slice was given up')
  expect(await storedTables(scene.url, 'default')).toEqual(before)
  expect(await scene.query('select * from intake_ops.runs where run_id = $1', [run])).toEqual(ended)
  expect(await owners(run, 'done')).toEqual(done)
  stopped.kill('SIGTERM')
  const { code, stderr } = await stopped.ended
  expect(code).toBe(0)
  // No fault of ours: the worker lost its session, and says so.
  expect(stderr).not.toContain('"code":"internal"')
})

it('a backfill that cannot claim its streams ends after half a minute, or when a signal stops it, and leaves no run', async () => {
  const backfill = () => startCli(['backfill', '--json'], scene.env)
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  await lockForSession(session.db, 'claims', 'claims')
  const [waits, stopped] = [backfill(), startCli(['backfill', '--streams', 'forms'], scene.env)]
  const first = await Promise.race([waits.ended.then(() => waits), stopped.ended.then(() => stopped)])
  // One of them has the streams that both ask for.
  expect((await first.ended).code).toBe(3)
  const left = first === waits ? stopped : waits
  const { code, stderr } = await left.ended
  expect([code, stderr]).toEqual([1, expect.stringMatching(/no slices can be claimed.*error: /s)])
  const next = startCli(['backfill', '--streams', 'forms'], scene.env)
  await next.said('no slices can be claimed')
  next.kill('SIGTERM')
  expect((await next.ended).code).toBe(143)
  await unlock(session, 'claims', 'claims')
  const running = await scene.query("select from intake_ops.runs where status = 'running'")
  expect(running).toEqual([])
  expect((await runCommand(['backfill'], scene.env)).code).toBe(0)
})
