/** Law 2 end to end: whatever happens to events on delivery, the tables equal the world. */

import pino from 'pino'
import { expect, test } from 'vitest'
import { openClient } from '../../src/api/client.ts'
import { createWebhookConfig } from '../../src/api/resources/webhooks.ts'
import { systemClock } from '../../src/core/clock.ts'
import { wallClock } from '../../src/emulator/clock.ts'
import { startActivity } from '../../src/emulator/world/clinic-changes.ts'
import { openServe, type Serving } from '../../src/operate/serve/serve.ts'
import { freePort } from '../support/free-port.ts'
import { expectedOf, storedTables, type Tables } from './support/expected.ts'
import { openScene, query, type Scene } from './support/scene.ts'
import { quiet, settled, until } from './support/serving.ts'

const logger = pino({ level: 'silent' })

/** `serve` in this process, and a webhook that points to it. */
async function serve({ emulator, url }: Scene): Promise<Serving> {
  const { base_url, teams } = emulator.environments[0]!
  const { api_key: apiKey, api_secret: apiSecret } = teams[0]!
  const team = { name: 'default', baseUrl: base_url, apiKey, apiSecret, apiVersion: 'v2.1', concurrency: 8 }
  await using client = openClient({ ...team, clock: systemClock, random: Math.random, logger })
  const port = await freePort()
  const { record } = await createWebhookConfig(client, { target_url: `http://127.0.0.1:${port}/webhooks` })
  return await openServe({
    ...{ url, logger, clock: systemClock, random: Math.random, teams: [team] },
    ingestTeams: [{ name: 'default', webhookSecrets: [record.signature_secret] }],
    ingest: { host: '127.0.0.1', port },
    admin: { host: '127.0.0.1', port: 0 },
    ...{ drain: true, cron: null, inboxDays: 30, encryptionKey: null, backfill: async () => {} },
  })
}

/** Tables whose rows contain nothing of other records. */
const OWN = /^(patient|document|form|question)/

function ownOf(tables: Tables): Tables {
  return Object.fromEntries(Object.entries(tables).filter(([name]) => OWN.test(name)))
}

const packetResponses = (url: string) =>
  query(
    url,
    `select id, is_submitted, form_index, is_archived,
       array(select response_id from intake.packet_response_members m
         where (m.team_id, m.packet_response_id) = (p.team_id, p.id) order by position) as responses
     from intake.packet_responses p where _deleted_at is null order by id collate "C"`,
  )

async function live(scene: Scene, faults: string, seconds: number): Promise<void> {
  const { control } = scene.emulator
  expect((await scene.backfill()).code).toBe(0)
  await using _serving = await serve(scene)
  const ofOld = control.world().messages.end
  const packetsOfOld = control.world().packetResponses.end
  control.setFaults(faults)
  const still = new AbortController()
  startActivity(control.world(), 40, faults, wallClock, still.signal)
  await systemClock.sleep(seconds * 1000)
  await until('a packet was sent', () => control.world().packetResponses.end > packetsOfOld)
  still.abort()
  await quiet(scene, ofOld)
  await settled(scene)
  const world = control.world()
  if (!/drop|off/.test(faults)) {
    expect(ownOf(await storedTables(scene.url))).toEqual(ownOf(expectedOf(world)))
    const reported = await packetResponses(scene.url)
    const all = Array.from({ length: world.packetResponses.end - packetsOfOld }, (_, at) =>
      world.packetResponses.at(packetsOfOld + at),
    )
    const there = all.filter((each) => each !== undefined)
    expect(there.length).toBeGreaterThan(0)
    for (const each of there) {
      const { id, is_submitted, form_index, is_archived, responses } = each
      expect(reported).toContainEqual({ id, is_submitted, form_index, is_archived, responses })
    }
  }
  control.setFaults('')
  expect((await scene.backfill('--full', '--allow-mass-delete')).code).toBe(0)
  expect(await storedTables(scene.url)).toMatchObject(expectedOf(world))
  await until(
    'nothing is asked for',
    async () => (await query(scene.url, 'select from intake_ops.refetches')).length === 0,
  )
}

test.each([
  'webhook-duplicate=0.3,webhook-reorder=0.3,webhook-delay=0.3:400,webhook-forge=0.2,webhook-rerender=0.4:300',
  'webhook-drop=0.3,webhook-reorder=0.3,webhook-delay=0.3:400,webhook-rerender=0.4:300,webhook-off=1:150',
])('with %s the tables equal the world', async (faults) => {
  await using scene = await openScene()
  await live(scene, faults, 3)
})
