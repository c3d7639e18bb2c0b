/** The webhooks of all teams without a network: how their sender is opened, what they listen to, and what is pending. */
import { beforeEach, expect, it, vi } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import type { AttemptOutcome, Sender, SenderOptions } from '../../../src/emulator/webhooks/sender.ts'
import { callerOf, type Loose } from '../caller.ts'
import { stillClock } from '../still-clock.ts'

interface Opened {
  readonly options: SenderOptions
  closed: number
}

const here = vi.hoisted(() => ({
  opened: [] as Opened[],
  posts: [] as { url: string; event: Loose; secret: string; answer: (outcome: AttemptOutcome) => void }[],
}))
vi.mock('../../../src/emulator/webhooks/sender.ts', () => ({
  openSender(options: SenderOptions): Sender {
    const opened: Opened = { options, closed: 0 }
    here.opened.push(opened)
    return {
      post: (url, body, secret) =>
        new Promise((answer) => {
          here.posts.push({ url, event: JSON.parse(body.toString()), secret, answer })
        }),
      close: async () => {
        opened.closed += 1
      },
    }
  },
}))

const OK: AttemptOutcome = { acknowledged: true, status: 201, error: null, final: false }
const FAILED: AttemptOutcome = { acknowledged: false, status: null, error: 'timeout', final: false }

beforeEach(() => {
  here.opened.length = 0
  here.posts.length = 0
})

it('each team has a sender with the configured limits, which is closed with the emulator', async () => {
  const emulator = await startEmulator({
    ...{ port: 0, patients: 1, clock: stillClock },
    ...{ allowRemoteWebhooks: true, webhookTimeoutMs: 1234 },
  })
  const options = { allowRemote: true, timeoutMs: 1234 }
  expect(here.opened).toEqual(Array(4).fill({ options, closed: 0 }))
  await emulator.close()
  expect(here.opened.map(({ closed }) => closed)).toEqual([1, 1, 1, 1])
  await using usual = await startEmulator({ port: 0, patients: 1, clock: stillClock })
  expect(usual.environments).toHaveLength(2)
  expect(here.opened[4]!.options).toEqual({ allowRemote: false, timeoutMs: 10_000 })
})

it('a test event is pending until it is answered, is not counted as a retry, and has the URL and secret of its own configuration', async () => {
  await using emulator = await startEmulator({
    port: 0,
    patients: 1,
    clock: stillClock,
    faults: 'clock-skew=60',
  })
  const { control } = emulator
  const { send, rows } = callerOf(emulator)
  const hooks: Loose[] = []
  for (const path of ['one', 'two'])
    hooks.push((await send('POST', '/v2/webhooks', { target_url: `http://127.0.0.1:9/${path}` })).body)
  const replies = hooks.map(({ id }) => send('POST', '/v2/webhooks/events/test', { id }))
  await expect.poll(() => here.posts.length).toBe(2)
  expect(control.webhooks()).toMatchObject({ pending: 2, retrying: 0 })
  let idle = false
  const waiting = control
    .webhooks()
    .idle()
    .then(() => (idle = true))
  const byPath = here.posts.toSorted((a, b) => (a.url < b.url ? -1 : 1))
  const now = control.world().now()
  expect(byPath.map(({ url, secret, event }) => [url, secret, event.timestamp])).toEqual(
    hooks.map((one) => [one.target_url, one.signature_secret, now]),
  )
  byPath[0]!.answer(FAILED)
  await replies[0]
  expect([control.webhooks().pending, idle]).toEqual([1, false])
  byPath[1]!.answer(OK)
  await waiting
  const shown = (await Promise.all(replies)).map(({ body }) => body)
  expect(shown).toEqual([
    { id: byPath[0]!.event.id, status: 'failed', response_status_code: null, error: 'timeout' },
    { id: byPath[1]!.event.id, status: 'succeeded', response_status_code: 201, error: null },
  ])
  const records = (await rows('/v2/webhooks/events')).map(({ id: _, ...record }) => record)
  expect(records).toEqual(
    shown.map(({ id, ...outcome }, at) => ({
      ...{ event_id: id, webhook_config: hooks[at].id, event_type: 'created', source: 'patient' },
      ...{ ...outcome, attempts: 1, created_at: now, next_retry_at: null },
    })),
  )
  expect(control.webhooks()).toMatchObject({ pending: 0, retrying: 0 })
})

it('a team listens to its changes once, and only while it has a configuration', async () => {
  const emulator = await startEmulator({ port: 0, patients: 1, clock: stillClock })
  const { control } = emulator
  const { send } = callerOf(emulator)
  const world = control.world()
  let listeners = 0
  const subscribe = world.subscribe.bind(world)
  vi.spyOn(world, 'subscribe').mockImplementation((listener) => {
    const end = subscribe(listener)
    listeners += 1
    return () => {
      listeners -= 1
      return end()
    }
  })
  const create = async (): Promise<string> =>
    (await send('POST', '/v2/webhooks', { target_url: 'http://127.0.0.1:9/' })).body.id
  const counts = [listeners]
  const ids = [await create(), await create()]
  counts.push(listeners)
  await send('PATCH', `/v2/webhooks/${ids[0]}`, { is_active: false })
  await send('DELETE', `/v2/webhooks/${ids[0]}`)
  counts.push(listeners)
  await send('DELETE', `/v2/webhooks/${ids[1]}`)
  counts.push(listeners)
  await create()
  counts.push(listeners)
  control.createPatient({ first_name: 'A', last_name: 'B' })
  await expect.poll(() => here.posts.length).toBe(1)
  here.posts[0]!.answer(OK)
  await control.webhooks().idle()
  await emulator.close()
  counts.push(listeners)
  expect(counts).toEqual([0, 1, 1, 0, 1, 0])
})
