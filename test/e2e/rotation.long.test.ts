/** Rotation of webhook secrets as described in docs/operations.md: in the end every event is in the inbox. */
import { expect, it } from 'vitest'
import { wallClock } from '../../src/emulator/clock.ts'
import { startActivity } from '../../src/emulator/world/clinic-changes.ts'
import { callerOf, type Loose } from '../emulator/caller.ts'
import { runCommand } from '../support/run-command.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { openScene, query, type Scene } from './support/scene.ts'
import { ANYWHERE, createWebhook, quiet, settled, startServing, until } from './support/serving.ts'

const attemptsOf = (scene: Scene): Promise<Loose[]> => callerOf(scene.emulator).rows('/v2/webhooks/events')

async function storedEvents(scene: Scene): Promise<ReadonlySet<string>> {
  const rows = await query<{ event_id: string }>(scene.url, 'select event_id from intake_raw.inbox')
  return new Set(rows.map(({ event_id }) => event_id))
}

it('a second webhook next to the first, then without the first: no event is lost, and none is rejected in the end', async () => {
  await using scene = await openScene({ patients: 20, responses: 24 })
  const { control } = scene.emulator
  const env = { ...ANYWHERE, ...scene.env }
  const webhooks = (...words: string[]) => runCommand(['webhooks', ...words, '--json'], env)
  const came = async (config: string) =>
    (await attemptsOf(scene)).filter((one) => one.webhook_config === config && one.status === 'succeeded')
      .length
  expect((await scene.backfill()).code).toBe(0)
  const serving = await startServing(env)
  const address = serving.document.webhooks!
  const first = await createWebhook(env, address)
  const ofOld = control.world().messages.end
  const still = new AbortController()
  startActivity(control.world(), 20, 'rotation', wallClock, still.signal)
  await until('events come by the first', async () => (await came(first)) > 10)

  // 1. Create the second; both secrets are valid from now on.
  const second = await createWebhook(env, address)
  await until('events come by the second', async () => (await came(second)) > 10)
  const before = await came(first)
  await until('and by the first still', async () => (await came(first)) > before)
  // 2. Wait until no retry of the first is pending.
  await until('nothing waits', async () => {
    const { events } = JSON.parse((await webhooks('events', '--limit', '1000')).stdout) as { events: Loose[] }
    const done = new Set(events.filter((one) => one.status === 'succeeded').map((one) => one.event_id))
    return events.every((one) => one.status === 'succeeded' || done.has(one.event_id))
  })
  // 3. Delete the first.
  expect((await webhooks('delete', first)).code).toBe(0)
  const after = await came(second)
  await until('events go on', async () => (await came(second)) > after + 10)
  still.abort()
  await settled(scene)
  await until('what was refused came again', () => control.webhooks().retrying === 0)
  await settled(scene)

  const attempts = await attemptsOf(scene)
  const stored = await storedEvents(scene)
  expect(attempts.filter(({ event_id }) => !stored.has(event_id))).toEqual([])
  const refused = attempts.filter(({ status }) => status !== 'succeeded').map(({ event_id }) => event_id)
  const delivered = new Set(
    attempts.filter(({ status }) => status === 'succeeded').map((one) => one.event_id),
  )
  expect(refused.filter((event) => !delivered.has(event))).toEqual([])
  const { webhooks: listed } = JSON.parse((await webhooks('list')).stdout) as { webhooks: Loose[] }
  expect(listed).toMatchObject([{ id: second, secret: 'stored' }])
  expect((await serving.stop()).code).toBe(0)
  await quiet(scene, ofOld)
  expect((await scene.backfill('--full', '--allow-mass-delete')).code).toBe(0)
  expect(await storedTables(scene.url)).toMatchObject(expectedOf(control.world()))
})
