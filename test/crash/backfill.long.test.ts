/** Network faults during a backfill, on either side: it survives them, or reports them, and the next run succeeds. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { until } from '../e2e/support/serving.ts'
import type { Ended } from '../support/cli.ts'
import { type Network, openProxy, type TcpProxy } from '../support/proxy.ts'
import { runCommand } from '../support/run-command.ts'
import { PATIENCE_MS } from './troubled.ts'

/** Long enough for network faults in between: each page takes time. */
const WORLD = { patients: 400, responses: 60, pageSize: 10, faults: 'slow=1:10' }

async function expectWorld({ url, emulator }: Scene): Promise<void> {
  expect(await storedTables(url)).toEqual(expectedOf(emulator.control.world()))
}

async function sessionsOf(scene: Scene): Promise<number> {
  const sessions = await scene.query(
    `select from pg_stat_activity where datname = current_database() and application_name like 'intake-sync %'`,
  )
  return sessions.length
}

/** Runs a backfill; after some pages the network has this fault, for a while, and until it had an effect. */
async function backfillUnder(
  scene: Scene,
  variables: Record<string, string>,
  proxy: TcpProxy,
  network: Network,
): Promise<Ended> {
  const { control } = scene.emulator
  let isOver = false
  const running = runCommand(['backfill'], { ...scene.env, ...variables }).finally(() => {
    isOver = true
  })
  await until('it has read some pages', () => control.requests().length > 12, PATIENCE_MS)
  const from = proxy.broken
  const harms = network.kind !== 'slow' && network.kind !== 'silent'
  proxy.become(network)
  await sleep(500)
  await until('something is broken', () => !harms || isOver || proxy.broken > from, PATIENCE_MS)
  proxy.become({ kind: 'good' })
  expect(proxy.broken > from).toBe(harms)
  return await running
}

describe.concurrent('a backfill is complete in one run, though the connection to the service', {
  timeout: 300_000,
}, () => {
  it.each<[string, Network]>([
    ['resets every connection for a while', { kind: 'away' }],
    ['swallows what is sent for a while', { kind: 'silent' }],
    ['loses the answers for a while', { kind: 'answers lost' }],
    ['ends in the middle of answers for a while', { kind: 'answers cut', bytes: 2_500 }],
    ['takes a tenth of a second each way for a while', { kind: 'slow', ms: 100 }],
  ])('%s', async (_, network) => {
    await using scene = await openScene(WORLD)
    await using proxy = await openProxy(scene.env.INTAKE_BASE_URL!)
    const variables = { INTAKE_BASE_URL: proxy.through(scene.env.INTAKE_BASE_URL!) }
    const { code, output } = await backfillUnder(scene, variables, proxy, network)
    expect({ code, output }).toMatchObject({ code: 0 })
    await expectWorld(scene)
  })
})

describe.concurrent('when the connection to the warehouse', { timeout: 300_000 }, () => {
  it.each<[string, Network]>([
    ['resets every connection', { kind: 'away' }],
    ['loses the answers, to a commit too', { kind: 'answers lost' }],
    ['ends in the middle of answers', { kind: 'answers cut', bytes: 300 }],
    ['ends in the middle of what is loaded', { kind: 'requests cut', bytes: 2_000 }],
  ])(
    '%s, a backfill survives, or reports it and ends, and then the next one is complete',
    async (_, network) => {
      await using scene = await openScene(WORLD)
      await using proxy = await openProxy(scene.url)
      const variables = { DATABASE_URL: proxy.through(scene.url) }
      const { code, output } = await backfillUnder(scene, variables, proxy, network)
      expect([0, 1], output).toContain(code)
      expect(output).not.toMatch(/fault of intake-sync|postgres:\/\//)
      if (code === 1) {
        expect(output).toMatch(/cannot reach the warehouse, or lost the connection to it/)
        // A session notices its broken connection when its statement ends, and holds its locks until then.
        await until('its sessions ended', async () => (await sessionsOf(scene)) === 0, PATIENCE_MS)
        expect((await scene.backfill()).code).toBe(0)
      }
      await expectWorld(scene)
    },
  )

  it('drops everything for a while, or is slow, a backfill is complete in one run', async () => {
    for (const network of [{ kind: 'silent' }, { kind: 'slow', ms: 20 }] as const) {
      await using scene = await openScene(WORLD)
      await using proxy = await openProxy(scene.url)
      const variables = { DATABASE_URL: proxy.through(scene.url) }
      const { code, output } = await backfillUnder(scene, variables, proxy, network)
      expect({ code, output }).toMatchObject({ code: 0 })
      await expectWorld(scene)
    }
  })
})
