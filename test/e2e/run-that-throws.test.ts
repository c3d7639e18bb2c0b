/** A run that throws stores its reason, also where the reason is the loss of its own session. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCommand } from '../support/run-command.ts'
import { connect, openScene, type Scene } from './support/scene.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene({ patients: 3, responses: 4 })
  expect(await scene.backfill()).toMatchObject({ code: 0 })
})
afterAll(() => scene[Symbol.asyncDispose]())

/** For each command: a table that it waits for while its run is in progress, and the name of its session. */
const RUNS = [
  ['backfill', ['backfill'], 'intake_ops.run_streams', 'backfill'],
  ['verify', ['verify'], 'intake_ops.verifications', 'verify'],
  ['replay', ['replay'], 'intake.patients', 'replay'],
  ['replay', ['replay', '--inbox', '--since', '2020-01-01'], 'intake_raw.inbox', 'replay --inbox'],
] as const

it.each(RUNS)(
  'a %s, as %j, whose session breaks is stored as failed, with the reason',
  async (kind, words, table, session) => {
    const other = await connect(scene.url)
    await other.query('begin')
    await other.query(`lock table ${table} in access exclusive mode`)
    const running = runCommand([...words], scene.env)
    const waiting = () =>
      scene.query(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      )
    await expect.poll(async () => (await waiting()).length).toBeGreaterThan(0)
    const broken = await scene.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = $1',
      [`intake-sync ${session}`],
    )
    expect(broken).toHaveLength(1)
    await other.query('rollback')
    await other.end()
    const { code } = await running
    expect(code).toBe(1)
    const runs = await scene.query(
      'select kind, status, finished_at is not null as finished, error from intake_ops.runs order by run_id desc limit 1',
    )
    expect(runs).toEqual([
      { kind, status: 'failed', finished: true, error: expect.stringMatching(/warehouse/) },
    ])
  },
)
