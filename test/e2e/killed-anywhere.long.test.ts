/** SIGKILL during each stream in turn, while the service changes: the next run ends like a fresh load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { startCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'
import { often } from '../support/thorough.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { liven } from './support/living.ts'
import { openScene, openWarehouse, query, type Scene } from './support/scene.ts'
import { everyTable } from './support/tables.ts'

/** A request in the middle of each stream: the file of an export, or a page that is not the first. */
const MIDDLES = [
  ...['/v2/patients?', '/v2/forms?', '/v2/packets', '/v2/documents', '/v2/responses?', '/v2/messages?'],
  ...['POST /v2/export-csv', '/v2/webhooks', '/v2/webhooks/events?'],
]

/** Kills a run shortly after it sent this request, at one of the first few times. */
async function killIn(scene: Scene, middle: string): Promise<void> {
  const { control } = scene.emulator
  control.resetCounters()
  const run = startCli(['backfill'], scene.env)
  const nth = 1 + Math.floor(Math.random() * 3)
  const asked = () => {
    const lines = control.requests().map(({ method, url }) => (method === 'GET' ? url : `${method} ${url}`))
    return lines.filter((line) => line.startsWith(middle)).length
  }
  while (run.process.exitCode === null && asked() < nth && !(asked() > 0 && isOver(scene))) await sleep(2)
  await sleep(Math.random() * 40)
  run.kill('SIGKILL')
  await run.ended
  expect(asked(), middle).toBeGreaterThan(0)
  // The server notices a killed client when it next reads from it.
  const sessions = `select application_name from pg_stat_activity
    where datname = current_database() and application_name like 'intake-sync %'`
  await vi.waitFor(async () => expect(await query(scene.url, sessions)).toEqual([]), 60_000)
}

/** The log of deliveries is read last; some lists have only one page. */
function isOver({ emulator }: Scene): boolean {
  return emulator.control.requests().some(({ url }) => url.startsWith('/v2/webhooks/events'))
}

it('of all nine streams', async () => {
  await using scene = await openScene({ patients: 40, responses: 60, forms: 12, packets: 3, documents: 3 })
  await using fresh = await openWarehouse()
  const { control } = scene.emulator
  control.setFaults('slow=1:12')
  for (let round = 0; round < often(1, 10); round++) {
    for (const middle of MIDDLES) {
      const life = liven(scene.emulator, { each: 0, changes: 20 }, `${round} ${middle}`)
      await killIn(scene, middle)
      await life.still()
    }
  }
  control.setFaults('')
  const last = await scene.backfill('--full', '--allow-mass-delete', '--json')
  expect(last).toMatchObject({ code: 0, stderr: '' })
  expect(await storedTables(scene.url)).toMatchObject(expectedOf(control.world()))
  const again = await runCommand(['backfill'], { ...scene.env, DATABASE_URL: fresh.url })
  expect(again.code).toBe(0)
  expect(await everyTable(scene.url, 'default')).toEqual(await everyTable(fresh.url, 'default'))
  const runs = await query<{ status: string }>(
    scene.url,
    'select status from intake_ops.runs order by run_id',
  )
  expect(runs.length).toBeGreaterThan(MIDDLES.length)
  expect(runs.slice(0, -1).map(({ status }) => status)).not.toContain('running')
})
