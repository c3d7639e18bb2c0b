/** Signature secrets: configured and stored ones, used at once, dropped when retired, and never shown. */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { keyOf, seal } from '../../../src/core/secret-box.ts'
import { openSecretSource, type SecretSource } from '../../../src/ingest/http/secrets.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openGlances } from '../../../src/warehouse/glance.ts'
import { placeOf, retireSecret, storeSecret } from '../../../src/warehouse/webhook-secrets.ts'
import { createTestDatabase } from '../../support/database.ts'
import { eventOf, openRecorder, openScene, post, query, type Recorded } from '../support/ingest.ts'

interface Bench extends AsyncDisposable {
  readonly url: string
  readonly recorded: Recorded
  readonly clock: Clock & { pass(seconds: number): void }
  source(encryptionKey?: string | null): SecretSource
  store(configId: string, secret: string, sealedBy?: string): Promise<void>
  retire(configId: string): Promise<void>
}

const KEY = randomBytes(32).toString('base64')
const TEAM = { name: 'clinic', teamId: 1 }

async function openBench(configured: readonly string[] = ['configured']): Promise<Bench> {
  const database = await createTestDatabase()
  const { url } = database
  await query(url, `insert into intake.teams (name) values ('clinic')`)
  const { recorded, logger } = openRecorder()
  let now = 0
  const clock = {
    now: () => now,
    sleep: () => Promise.reject(new Error('nothing sleeps here')),
    pass(seconds: number) {
      now += seconds * 1_000_000
    },
  }
  const session = await openSession({ url, purpose: 'tests' })
  const glances = openGlances(url)
  return {
    url,
    recorded,
    clock,
    source: (encryptionKey = KEY) =>
      openSecretSource({ glances, team: TEAM, configured, encryptionKey, clock, logger }),
    async store(configId, secret, sealedBy = KEY) {
      const key = { teamId: 1, configId }
      await storeSecret(session.db, key, seal(secret, keyOf(sealedBy), placeOf(key)))
    },
    async retire(configId) {
      await retireSecret(session.db, 'clinic', configId)
    },
    async [Symbol.asyncDispose]() {
      await session.close()
      await glances.close()
      await database.drop()
    },
  }
}

describe('the secrets of a team', () => {
  it('are those of its configuration and stored ones, without retired ones', async () => {
    await using bench = await openBench()
    await bench.store('a', 'stored')
    await bench.store('b', 'gone')
    await bench.retire('b')
    const source = bench.source()
    expect(source.current()).toEqual(['configured'])
    expect(await source.refresh()).toEqual(['configured', 'stored'])
    expect(source.current()).toEqual(['configured', 'stored'])
  })

  it('are looked up at most five times a second, however often they are requested', async () => {
    await using bench = await openBench()
    const source = bench.source()
    await Promise.all(Array.from({ length: 50 }, () => source.refresh()))
    await bench.store('a', 'new')
    expect(await source.refresh()).toEqual(['configured'])
    bench.clock.pass(0.25)
    expect(await source.refresh()).toEqual(['configured', 'new'])
  })

  it('are refreshed in the background when they are old, so that a retired one is dropped', async () => {
    await using bench = await openBench()
    await bench.store('a', 'stored')
    const source = bench.source()
    await source.refresh()
    await bench.retire('a')
    expect(source.current()).toEqual(['configured', 'stored'])
    bench.clock.pass(61)
    source.current()
    await expect.poll(() => source.current()).toEqual(['configured'])
  })

  it('that cannot be decrypted are reported once, without any part of them, and the others stay valid', async () => {
    await using bench = await openBench([])
    await bench.store('a', 'stored')
    await bench.store('b', 'sealed elsewhere', randomBytes(32).toString('base64'))
    const source = bench.source()
    for (const _ of [1, 2, 3]) {
      expect(await source.refresh()).toEqual(['stored'])
      bench.clock.pass(2)
    }
    expect(bench.recorded.logged).toHaveLength(1)
    expect(bench.recorded.logged[0]).toContain('INTAKE_ENCRYPTION_KEY')
    expect(bench.recorded.logged[0]).not.toMatch(/stored"|sealed elsewhere/)
    const keyless = bench.source(null)
    expect(await keyless.refresh()).toEqual([])
    expect(bench.recorded.logged[1]).toContain('INTAKE_ENCRYPTION_KEY is not set')
  })
})

describe('an ingester', () => {
  it('accepts an event signed with a secret that was just stored, and looks it up again if unknown', async () => {
    await using bench = await openBench([])
    const source = bench.source()
    await using scene = await openScene({ teams: [{ ...TEAM, secrets: source }] })
    const send = async () => (await post(scene.ingester.url, eventOf(), { secret: 'new' })).status
    expect(await send()).toBe(503)
    await bench.store('a', 'other')
    bench.clock.pass(2)
    expect(await send()).toBe(400)
    await bench.store('b', 'new')
    bench.clock.pass(2)
    expect(await send()).toBe(200)
  })

  it('answers 503, not 400, when it cannot look up a possibly new secret', async () => {
    const clock = { now: () => 0, sleep: () => Promise.reject(new Error('nothing sleeps here')) }
    const { logger } = openRecorder()
    await using glances = openGlances('postgres://nobody@127.0.0.1:9/none')
    const secrets = openSecretSource({
      glances,
      team: TEAM,
      configured: ['x'],
      encryptionKey: KEY,
      clock,
      logger,
    })
    await using scene = await openScene({
      teams: [{ ...TEAM, secrets: { ...secrets, refresh: () => Promise.reject(new Error('away')) } }],
    })
    expect((await post(scene.ingester.url, eventOf(), { secret: 'new' })).status).toBe(503)
    expect((await post(scene.ingester.url, eventOf(), { secret: 'x' })).status).toBe(200)
    await expect(secrets.refresh()).rejects.toMatchObject({ code: 'warehouse_unreachable' })
  })
})
