/** All streams at once, killed or read while the data changes: in the end the tables equal the world. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { startCli } from '../support/cli.ts'
import { plus, responsesOf, submitAt } from './support/answered.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { liven } from './support/living.ts'
import { openScene, query, type Scene } from './support/scene.ts'

async function expectWorld(scene: Scene): Promise<void> {
  expect(await storedTables(scene.url)).toEqual(expectedOf(scene.emulator.control.world()))
}

/** Starts a run and kills it after this many requests for pages or records of responses. */
async function killAfter(scene: Scene, requests: number): Promise<void> {
  const { control } = scene.emulator
  control.resetCounters()
  const run = startCli(['backfill'], scene.env)
  const asked = () => control.requests().filter(({ url }) => url.startsWith('/v2/responses')).length
  while (asked() < requests && run.process.exitCode === null) await sleep(5)
  run.kill('SIGKILL')
  expect((await run.ended).signal).toBe('SIGKILL')
  // The server notices a killed client when it next reads from it.
  const sessions = () =>
    query(
      scene.url,
      "select from pg_stat_activity where datname = current_database() and application_name like 'intake-sync %'",
    )
  await until(async () => (await sessions()).length === 0)
}

it.concurrent.each([
  ['default', [2, 12]],
  ['response-summaries', [80]],
])(
  'killed while it reads responses, as %s: the next run completes a first load and a later one',
  async (shape, moments) => {
    await using scene = await openScene({ shape, responses: 150, faults: 'slow@responses=1:60' })
    const { control } = scene.emulator
    for (const requests of moments) await killAfter(scene, requests)
    control.setFaults('')
    expect(await scene.backfill()).toMatchObject({ code: 0 })
    await expectWorld(scene)

    const world = control.world()
    const newest = responsesOf(world)
      .flatMap((one) => one.submitted_at ?? [])
      .sort()
      .at(-1)!
    for (let at = 1; at <= 60; at++) submitAt(world, plus(newest, at))
    control.setFaults('slow@responses=1:60')
    await killAfter(scene, 4)
    control.setFaults('')
    expect(await scene.backfill()).toMatchObject({ code: 0 })
    await expectWorld(scene)
  },
)

it.concurrent.each([['default'], ['response-summaries+newest-first+filters-ignored']])(
  'as %s: backfills of changing patients, forms, messages and answers converge once the changes stop',
  async (shape) => {
    await using scene = await openScene({ shape, patients: 30, responses: 48, pageSize: 20 })
    const life = liven(scene.emulator, { each: 0.5, changes: 20 }, shape)
    const { patients } = scene.emulator.control.world()
    for (const args of [[], ['--full']]) {
      expect([0, 4]).toContain((await scene.backfill(...args)).code)
      // Only records that existed all the time: which of the others are gone depends on when they are read.
      scene.emulator.control.deletePatient(patients.slice(0, 1)[0]!.id)
    }
    await life.still()
    const { code, stdout } = await scene.backfill('--full', '--allow-mass-delete')
    expect({ code, stdout }).toMatchObject({ code: 0 })
    // Users of the service created webhooks, which are not part of the world of the clinic.
    const {
      webhook_configs: configs,
      webhook_deliveries: deliveries,
      ...tables
    } = await storedTables(scene.url)
    expect(tables).toEqual(expectedOf(scene.emulator.control.world()))
    expect([configs, deliveries]).toEqual([expect.anything(), expect.anything()])
    const deleted = await query<{ stream: string; id: string }>(
      scene.url,
      'select stream, id from intake_raw.records where deleted',
    )
    expect(deleted.length).toBeGreaterThan(0)
  },
)

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await condition()); await sleep(10)) {
    if (Date.now() > deadline) throw new Error('waited a minute in vain')
  }
}
