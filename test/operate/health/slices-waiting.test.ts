/** Planned runs that no worker executes: shown by status, doctor and an alert, which name the teams. */
import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import {
  beat,
  type ClaimedSlice,
  claimSlices,
  openWorkSession,
  settleClaimed,
} from '../../../src/load/claims.ts'
import { insertRun } from '../../../src/load/slice.ts'
import { runRound } from '../../../src/operate/alerts/round.ts'
import { readWaitingSlices } from '../../../src/operate/health/runs.ts'
import { openWebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { openReceiver, SECRET, shortOf } from '../alerts/receiver.ts'

const streams = ['patients', 'forms', 'packets', 'documents'] as const
const window = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
const ids: Record<string, number> = {}
let warehouse: TestDatabase
let session: Session

beforeAll(async () => {
  warehouse = await openWarehouse()
  session = await openSession({ url: warehouse.url, purpose: 'test' })
  for (const name of ['north', 'south'])
    ids[name] = (
      await query<{ team_id: number }>(
        warehouse.url,
        'insert into intake.teams (name) values ($1) returning team_id',
        [name],
      )
    )[0]!.team_id
})

afterAll(async () => {
  await session.close()
  await warehouse.drop()
})

beforeEach(() => query(warehouse.url, 'delete from intake_ops.runs'))

const plan = (...teams: readonly string[]) => planned({ is_detached: true }, teams)

async function planned(options: object, teams: readonly string[]): Promise<number> {
  const parts = streams.flatMap((stream) => teams.map((name) => ({ teamId: ids[name]!, stream })))
  return Number(
    await session.db
      .transaction()
      .execute((db) => insertRun(db, options, { window, allow_mass_delete: false }, parts)),
  )
}

/** Lets this much time pass. */
const pass = (minutes: number) =>
  query(
    warehouse.url,
    `update intake_ops.slices set planned_at = planned_at - $1 * interval '1 minute',
       pending_since = pending_since - $1 * interval '1 minute', claimed_at = claimed_at - $1 * interval '1 minute',
       heartbeat_at = heartbeat_at - $1 * interval '1 minute', settled_at = settled_at - $1 * interval '1 minute'`,
    [minutes],
  )

async function startWorker(isOfRun = false) {
  const name = isOfRun ? 'abcdef02' : 'abcdef01'
  const { session: own, owner } = await openWorkSession(warehouse.url, name, { isOfRun })
  let isOver = false
  const stop = async () => {
    if (!isOver) await own.close()
    isOver = true
    await expect
      .poll(() =>
        query(warehouse.url, 'select from pg_stat_activity where application_name like $1', [
          `%worker ${name}`,
        ]),
      )
      .toEqual([])
  }
  onTestFinished(stop)
  const inHand: string[] = []
  const claim = async (team: string, most: number) => {
    const claimed = await claimSlices(own.db, { owner, teams: [team], streams, most })
    inHand.push(...claimed.map(({ sliceId }) => sliceId))
    return claimed
  }
  const settle = (claimed: ClaimedSlice) =>
    own.db.transaction().execute((db) => settleClaimed(db, claimed, 'done', null))
  return { claim, settle, lives: () => beat(own.db, owner, inHand), stop }
}

const waiting = async () =>
  (await readWaitingSlices(session.db)).map(({ team, run_id, slices, workers, seconds }) => {
    return [team, run_id, slices, workers, Math.round(seconds / 60)]
  })

it('without a worker every team waits at once; status and doctor say so with a hint, an alert after a minute', async () => {
  const run = await plan('north', 'south')
  const env = { DATABASE_URL: warehouse.url }
  expect(await waiting()).toEqual([
    ['north', run, 4, 0, 0],
    ['south', run, 4, 0, 0],
  ])
  // Of two runs, the one that waits longer is named.
  const [later] = await query<{ id: number }>(
    warehouse.url,
    `with run as (
       insert into intake_ops.runs (kind, options) values ('backfill', '{"is_detached": true}') returning run_id
     )
     insert into intake_ops.slices (run_id, team_id, stream, spec)
     select run_id, $1, 'messages', '{"version": 1}' from run returning run_id::int as id`,
    [ids.north],
  )
  expect((await waiting())[0]).toEqual(['north', run, 5, 0, 0])
  await query(warehouse.url, 'delete from intake_ops.runs where run_id = $1', [later!.id])
  const { stdout } = await runCommand(['status'], env)
  expect(stdout).toContain(`south: 4 slices of run ${run} waiting, and no worker is running\n`)
  expect(stdout).toContain('hint: start intake-sync work, or serve, with the team in its configuration')
  const json = JSON.parse((await runCommand(['status', '--json'], env)).stdout)
  expect(json.slices_waiting).toMatchObject([
    { team: 'north', run_id: run, slices: 4, workers: 0 },
    { team: 'south', run_id: run, slices: 4, workers: 0 },
  ])
  const doctor = JSON.parse((await runCommand(['doctor', '--json'], env)).stdout)
  expect(doctor.checks.find(({ name }: { name: string }) => name === 'slices')).toMatchObject({
    status: 'warning',
    detail: ['north', 'south']
      .map((team) => `${team}: 4 slices of run ${run} waiting, and no worker is running`)
      .join('; '),
    hint: 'start intake-sync work, or serve, with the team in its configuration',
  })

  await using receiver = await openReceiver()
  const options = {
    ...{ url: warehouse.url, logger: pino({ enabled: false }), clock: systemClock, version: '1.2.3' },
    ...{ signal: new AbortController().signal, webhookChecks: openWebhookChecks({ inboxDays: 30 }) },
    // South is in the configuration of no process.
    teams: ['north'],
    settings: { url: receiver.url, secret: SECRET, inboxSeconds: 300, maxAgeHours: null },
  }
  const posted = async () => {
    await runRound(options, { thorough: true, insist: true })
    return receiver.taken().flatMap(shortOf)
  }
  expect(await posted()).toEqual([])
  await pass(2)
  expect(await posted()).toEqual(['raised slices_waiting north', 'raised slices_waiting south'])
  expect(receiver.posts[0]!.document.alerts[1]).toMatchObject({
    text: `4 slices of a planned run waiting for a worker for 2 minutes, 0 workers running (run ${run})`,
    hint: 'start intake-sync work, or serve, with the team in its configuration',
  })
  expect(await posted()).toEqual([])
  const worker = await startWorker()
  await worker.claim('north', 1)
  expect(await posted()).toEqual(['cleared slices_waiting north', 'cleared slices_waiting south'])
})

it('a team that no worker has in its configuration waits after five minutes, and the others do not', async () => {
  const run = await plan('south', 'north')
  const worker = await startWorker()
  const [first] = await worker.claim('north', 1)
  await pass(4)
  await worker.settle(first!)
  await worker.claim('north', 2)
  expect(await waiting()).toEqual([])
  await pass(2)
  await worker.lives()
  expect(await waiting()).toEqual([['south', run, 4, 1, 6]])
  const { stdout } = await runCommand(['status'], { DATABASE_URL: warehouse.url })
  expect(stdout).toContain(
    `south: 4 slices of run ${run} waiting for 6 minutes, and claimed by none of the running workers (1)\n`,
  )
  await worker.claim('south', 1)
  expect(await waiting()).toEqual([])
})

it('a team whose turn has not come, because workers are busy with the run, does not wait; a run that no worker has begun does', async () => {
  const first = await plan('north', 'south')
  const worker = await startWorker()
  await worker.claim('north', 1)
  await pass(10)
  await worker.lives()
  expect(await waiting()).toEqual([])
  // Nor does it while another team was served only once meanwhile.
  await worker.claim('north', 1)
  expect(await waiting()).toEqual([])
  await worker.claim('north', 1)
  expect(await waiting()).toEqual([['south', first, 4, 1, 10]])
  await query(warehouse.url, 'delete from intake_ops.slices where team_id = $1', [ids.south])
  const second = await plan('south')
  await pass(6)
  await worker.lives()
  expect(await waiting()).toEqual([['south', second, 4, 1, 6]])
})

it('slices of a worker that was killed wait, and so does the end of a run, for all of its teams', async () => {
  const run = await plan('north', 'south')
  const worker = await startWorker()
  const all = [...(await worker.claim('north', 4)), ...(await worker.claim('south', 4))]
  expect(await waiting()).toEqual([])
  for (const claimed of all.slice(1)) await worker.settle(claimed)
  await worker.stop()
  expect(await waiting()).toEqual([['north', run, 1, 0, 0]])
  const next = await startWorker()
  await query(
    warehouse.url,
    `update intake_ops.slices set state = 'done', settled_at = now() where stream <> ''`,
  )
  await pass(4)
  expect(await waiting()).toEqual([])
  await pass(2)
  expect(await waiting()).toEqual([
    ['north', run, 1, 1, 6],
    ['south', run, 1, 1, 6],
  ])
  await next.claim('north', 1)
  expect(await waiting()).toEqual([])
})

it('a run whose process executes it waits for no worker; once the process is gone it does, if workers run', async () => {
  const run = await planned({}, ['north', 'south'])
  const process = await startWorker(true)
  await process.claim('north', 1)
  expect(await waiting()).toEqual([])
  const worker = await startWorker()
  await pass(10)
  expect(await waiting()).toEqual([])
  await process.stop()
  expect(await waiting()).toEqual([
    ['north', run, 4, 1, 10],
    ['south', run, 4, 1, 10],
  ])
  await worker.stop()
  // The next run marks it as interrupted: nobody has to start a worker for it.
  expect(await waiting()).toEqual([])
})
