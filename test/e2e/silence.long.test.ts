/** A service that silently disables an endpoint is detected by the next backfills. */
import { expect, it } from 'vitest'
import { callerOf, type Loose } from '../emulator/caller.ts'
import { runCommand } from '../support/run-command.ts'
import { openScene, type Scene } from './support/scene.ts'
import { createWebhook, settled, startServing, until } from './support/serving.ts'

async function webhooksOf(scene: Scene): Promise<{ verdict: string; reason: string } & Loose> {
  const run = await runCommand(['status', '--json'], scene.env)
  return (JSON.parse(run.stdout) as { teams: { webhooks: Loose }[] }).teams[0]!.webhooks
}

function change({ emulator: { control } }: Scene, city: string): void {
  const { patients } = control.world()
  for (let at = 0; at < 6; at++) control.updatePatient(patients.at(at)!.id, { city })
}

it('events stop although the configuration is active: status and metrics report silence until they arrive again', async () => {
  await using scene = await openScene({ patients: 12, responses: 12 })
  const { control } = scene.emulator
  expect((await scene.backfill()).code).toBe(0)
  expect(await webhooksOf(scene)).toMatchObject({
    verdict: 'unknown',
    reason: expect.stringMatching(/no webhook is known/),
  })
  const serving = await startServing(scene.env)
  const id = await createWebhook(scene.env, serving.document.webhooks!)
  control.setFaults('webhook-off=6')
  change(scene, 'Unreported')
  await settled(scene)
  await until('the events are counted', async () => (await webhooksOf(scene)).events_last_day === 6)
  expect((await scene.backfill()).code).toBe(0)
  expect((await webhooksOf(scene)).verdict).toBe('ok')

  change(scene, 'Untold')
  await settled(scene)
  expect((await scene.backfill()).code).toBe(0)
  const [listed] = await callerOf(scene.emulator).rows('/v2/webhooks')
  expect(listed).toMatchObject({ id, is_active: true })
  expect(await webhooksOf(scene)).toMatchObject({
    verdict: 'silent',
    reason: expect.stringMatching(/^the last backfill found \d+ changes that no event reported$/),
    deliveries_missing: 0,
  })
  expect(await serving.metric('intake_webhook_silent{team="default"}')).toBe(1)
  const text = await runCommand(['status'], scene.env)
  expect(text.stdout).toMatch(/^default .* silent +the last backfill found/m)

  // Enabled again, as docs/operations.md describes.
  control.setFaults('')
  expect((await runCommand(['webhooks', 'update', id, '--active', 'true'], scene.env)).code).toBe(0)
  change(scene, 'Reported')
  await settled(scene)
  await until('it is heard', async () => (await webhooksOf(scene)).verdict === 'ok')
  await serving.stop()
})
