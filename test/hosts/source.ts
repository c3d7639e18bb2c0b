/**
 * The service: two emulators of the same seed, so that the first teams of both have the same ids, and three teams whose
 * records change all the time. Its events go to the balancer; those that fail are sent again as the service does.
 */
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { openClient } from '../../src/api/client.ts'
import { createWebhookConfig } from '../../src/api/resources/webhooks.ts'
import { systemClock } from '../../src/core/clock.ts'
import { wallClock } from '../../src/emulator/clock.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import type { Webhooks } from '../../src/emulator/webhooks/engine.ts'
import { startActivity } from '../../src/emulator/world/clinic-changes.ts'
import { cancelMessage, isUnsent } from '../../src/emulator/world/clinic-messages.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { BRIDGE } from './namespaces.ts'

const WORLD = { port: 0, patients: 60, forms: 6, packets: 4, documents: 4, responses: 60, pageSize: 20 }
/** Changes per second and team. */
const RATE = 4
const PATIENCE_MS = 240_000

export interface SourceTeam {
  readonly name: string
  /** For INTAKE_CONFIG. */
  readonly config: object
  readonly world: () => World
  readonly webhooks: Webhooks
}

export interface Source extends AsyncDisposable {
  readonly teams: readonly SourceTeam[]
  /** Records change until the result is called. */
  change(): () => void
  /** Resolves when nothing changes any more and every event was acknowledged. */
  still(): Promise<void>
  /** Ids of the events that were acknowledged. */
  acknowledged(): readonly string[]
}

export async function openSource(balancer: string, seed: number): Promise<Source> {
  const emulators = [await startEmulator({ ...WORLD, seed }), await startEmulator({ ...WORLD, seed })]
  const forwards = await Promise.all(
    emulators.map(({ environments }, at) =>
      forward(9001 + at, Number(new URL(environments[0]!.base_url).port)),
    ),
  )
  const teams: SourceTeam[] = []
  for (const [at, place] of [
    [0, 0],
    [1, 0],
    [0, 1],
  ] as const) {
    const { environments, control } = emulators[at]!
    const there = environments[0]!.teams[place]!
    const name = `team-${teams.length + 1}`
    const access = { apiKey: there.api_key, apiSecret: there.api_secret }
    await using client = openClient({
      ...{ name, ...access, baseUrl: environments[0]!.base_url, apiVersion: 'v2.1', concurrency: 2 },
      ...{ clock: systemClock, random: Math.random, logger: pino({ enabled: false }) },
    })
    const { record } = await createWebhookConfig(client, { target_url: `${balancer}/webhooks/${name}` })
    teams.push({
      name,
      config: {
        ...{ name, ...access, baseUrl: `http://${BRIDGE}:${9001 + at}` },
        webhookSecrets: [record.signature_secret],
      },
      world: () => control.world(there.name),
      webhooks: control.webhooks(there.name) as Webhooks,
    })
  }
  let times = 0
  return {
    teams,
    change() {
      const stop = new AbortController()
      times += 1
      for (const { name, world } of teams)
        startActivity(world(), RATE, `${seed} ${name} ${times}`, wallClock, stop.signal)
      return () => stop.abort()
    },
    async still() {
      for (const { world } of teams) {
        const { messages } = world()
        for (const message of Array.from({ length: messages.end }, (_, at) => messages.at(at)))
          if (message !== undefined && isUnsent(message)) cancelMessage(world(), message.id)
      }
      for (const until = Date.now() + PATIENCE_MS; ; await sleep(50)) {
        if (teams.every(({ webhooks }) => webhooks.pending + webhooks.retrying === 0)) return
        if (Date.now() > until) throw new Error('the service could not send every event')
      }
    },
    acknowledged: () =>
      teams.flatMap(({ webhooks }) =>
        webhooks.attempts
          .listing(({ status }) => status === 'succeeded')
          .slice(0, Number.MAX_SAFE_INTEGER)
          .map(({ event_id }) => event_id),
      ),
    async [Symbol.asyncDispose]() {
      for (const close of forwards) close()
      for (const emulator of emulators) await emulator.close()
    },
  }
}

/** The emulator listens on loopback alone. */
async function forward(port: number, to: number): Promise<() => void> {
  const server = createServer((socket) => {
    const onward = connect(to, '127.0.0.1')
    for (const each of [socket, onward]) each.on('error', () => each.destroy())
    socket.pipe(onward).pipe(socket)
    socket.once('close', () => onward.destroy())
    onward.once('close', () => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(port, BRIDGE, resolve))
  return () => server.close()
}
