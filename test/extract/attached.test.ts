/**
 * A backfill that its process plans and executes, and whose slices workers execute too. A worker of this test claims one of
 * them while the process may not claim any.
 */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { beat, claimSlices, openWorkSession, settleClaimed } from '../../src/load/claims.ts'
import { recordStream } from '../../src/load/runs.ts'
import { NOTHING } from '../../src/load/slice.ts'
import { lockForSession, unlock } from '../../src/warehouse/locks.ts'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { type Running, startCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene
const running: Running[] = []

beforeAll(async () => {
  scene = await openScene({ patients: 15, forms: 3, packets: 2, documents: 2, responses: 12 })
})

afterEach(async () => {
  scene.emulator.control.setFaults('')
  for (const each of running) each.kill('SIGKILL')
  await Promise.all(running.splice(0).map(({ ended }) => ended))
})

afterAll(() => scene[Symbol.asyncDispose]())

const start = (...words: string[]) => {
  const process = startCli(words, { ...scene.env, INTAKE_ADMIN_PORT: '0', LOG_LEVEL: 'warn' })
  running.push(process)
  return process
}

const runs = () =>
  scene.query<{ id: number; status: string; error: string | null; by: string | null }>(
    `select run_id::int as id, status, error, canceled_by as by from intake_ops.runs order by run_id desc`,
  )

const slices = (run: number) =>
  scene.query<{ stream: string; state: string; owner: string | null; takeovers: number }>(
    `select stream, state, owner, takeovers from intake_ops.slices where run_id = $1 order by slice_id`,
    [run],
  )

const states = async (run: number) => (await slices(run)).map(({ stream, state }) => [stream, state])

async function newest(): Promise<number> {
  return (await runs())[0]?.id ?? 0
}

const sourceOf = async (before: number) => {
  const [row] = await scene.query<{ source: string }>(
    "select spec ->> 'source' as source from intake_ops.slices where run_id > $1 and team_id is not null",
    [before],
  )
  return row!.source
}

/** Starts a backfill; a worker of this test has its first slice before the process has any. */
async function shared(...words: string[]) {
  const { session, owner } = await openWorkSession(scene.url, 'abcdef02')
  const before = await newest()
  await lockForSession(session.db, 'claims', 'claims')
  const backfill = start('backfill', '--json', ...words)
  await expect.poll(newest).toBeGreaterThan(before)
  const claiming = { owner, teams: ['default'], streams: ['patients'], most: 1 } as const
  // Its settings of the service are others.
  expect(await claimSlices(session.db, { ...claiming, sources: ['another'] })).toEqual([])
  const claimed = await claimSlices(session.db, { ...claiming, sources: [await sourceOf(before)] })
  await unlock(session, 'claims', 'claims')
  expect(claimed).toHaveLength(1)
  const slice = claimed[0]!
  if (slice.kind !== 'stream') throw new Error('not the slice of a stream')
  return { session, slice, backfill, run: Number(slice.runId) }
}

async function expectWorld(): Promise<void> {
  const [team] = scene.emulator.environments[0]!.teams
  const expected = expectedOf(scene.emulator.control.world(team!.name))
  expect(await storedTables(scene.url, 'default')).toEqual(expected)
}

it('a backfill waits for the streams that a worker reads, and reports what it read there', async () => {
  const { session, slice, backfill, run } = await shared('--streams', 'patients,forms')
  await expect.poll(() => states(run)).toContainEqual(['forms', 'done'])
  const report = { ...NOTHING, status: 'succeeded', fetched: 7, unchanged: 7, note: null } as const
  await session.db.transaction().execute(async (db) => {
    await settleClaimed(db, slice, 'done', report)
    await recordStream(db, { ...slice.taken, runId: slice.runId }, report)
  })
  await session.close()
  const { code, stdout } = await backfill.ended
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ run_id: run, status: 'succeeded' },
    streams: { patients: { fetched: 7 }, forms: { fetched: 3, changed: 3 } },
  })
  const owners = (await slices(run)).map(({ owner }) => owner)
  expect([owners[0] === slice.owner, owners[1] === owners[2], owners[0] === owners[1]]).toEqual([
    true,
    true,
    false,
  ])
})

it('a backfill that a signal stops ends what workers read of it too, and says so', async () => {
  const { session, slice, backfill, run } = await shared('--streams', 'patients,forms')
  await expect.poll(() => states(run)).toContainEqual(['forms', 'done'])
  backfill.kill('SIGTERM')
  const { code, stdout } = await backfill.ended
  expect(code).toBe(143)
  expect(await beat(session.db, slice.owner, [slice.sliceId])).toEqual(new Set())
  await session.close()
  expect(JSON.parse(stdout)).toMatchObject({ run_id: run, status: 'interrupted' })
  expect((await runs())[0]).toMatchObject({
    ...{ id: run, status: 'interrupted', by: null },
    error: 'default/patients: stopped by a signal; the next run continues',
  })
  expect((await runCommand(['backfill'], scene.env)).code).toBe(0)
  await expectWorld()
})

it('a worker that ends with a stream of a backfill loses nothing: the process reads it', async () => {
  const { session, backfill, run } = await shared('--streams', 'patients,forms')
  await session.close()
  expect((await backfill.ended).code).toBe(0)
  expect(await slices(run)).toMatchObject([
    { stream: 'patients', takeovers: 1 },
    { stream: 'forms', takeovers: 0 },
    {},
  ])
  await expectWorld()
})

it('workers finish a backfill whose process was killed; without any, the next run replaces it', async () => {
  scene.emulator.control.setFaults('slow=1:3000')
  const begin = async () => {
    const before = await newest()
    const backfill = start('backfill', '--full')
    await expect.poll(newest).toBeGreaterThan(before)
    const run = await newest()
    await expect.poll(() => states(run)).toContainEqual(['patients', 'claimed'])
    backfill.kill('SIGKILL')
    await backfill.ended
    return run
  }
  const left = await begin()
  const shown = await runCommand(['runs', 'show', String(left), '--json'], scene.env)
  expect(JSON.parse(shown.stdout)).toMatchObject({
    status: 'interrupted',
    error: 'the process ended before the run was complete',
  })
  const continued = await begin()
  expect((await runs()).find(({ id }) => id === left)).toMatchObject({ status: 'interrupted', by: null })
  scene.emulator.control.setFaults('')
  const worker = start('work')
  await expect.poll(async () => (await runs())[0]!.status).toBe('succeeded')
  expect(await newest()).toBe(continued)
  expect((await slices(continued)).filter(({ takeovers }) => takeovers > 0)).not.toEqual([])
  await expectWorld()

  // A worker executes it, and ends it: the run that a person starts now reads everything.
  scene.emulator.control.setFaults('slow=1:3000')
  const replaced = await begin()
  const owner = expect.stringContaining(`:${worker.process.pid}:`)
  await expect.poll(async () => (await slices(replaced))[0]).toMatchObject({ state: 'claimed', owner })
  const replay = await runCommand(['replay', '--streams', 'patients'], scene.env)
  expect([replay.code, replay.stderr]).toEqual([3, expect.stringContaining(`runs cancel ${replaced}`)])
  expect((await runs())[0]).toMatchObject({ id: replaced, status: 'running', by: null })
  scene.emulator.control.setFaults('')
  expect((await runCommand(['backfill', '--full', '--streams', 'patients'], scene.env)).code).toBe(0)
  await expect
    .poll(async () => (await runs()).find(({ id }) => id === replaced))
    .toMatchObject({ status: 'interrupted', error: 'default/patients: another run reads it', by: null })
  // The worker has finished the others.
  const others = (await states(replaced)).filter(([stream, state]) => stream !== '' && state !== 'done')
  expect(others).toEqual([['patients', 'canceled']])
  worker.kill('SIGTERM')
  expect((await worker.ended).code).toBe(0)
  await expectWorld()
})
