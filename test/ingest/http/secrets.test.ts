/** Signature secrets: configured and stored ones, used at once, dropped when retired, and never shown. */
import { randomBytes } from 'node:crypto'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { openSecretSources, type SecretSource } from '../../../src/ingest/http/secrets.ts'
import { type BoundedQueries, openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { keyOf, placeOf, retireSecret, seal, storeSecret } from '../../../src/warehouse/webhook-secrets.ts'
import { createTestDatabase } from '../../support/database.ts'
import { eventOf, openRecorder, openScene, post, query, type Recorded } from '../support/ingest.ts'

interface Bench extends AsyncDisposable {
  readonly url: string
  readonly recorded: Recorded
  readonly clock: Clock & { pass(seconds: number): void }
  readonly bounded: BoundedQueries
  source(encryptionKey?: string | null): SecretSource
  store(configId: string, secret: string, sealedBy?: string): Promise<void>
  retire(configId: string): Promise<void>
}

const KEY = randomBytes(32).toString('base64')
const TEAM = { name: 'clinic', teamId: 1 }

const sourceOf = (options: Parameters<typeof openSecretSources>[0]) => openSecretSources(options)[0]!.secrets

async function openBench(configured: readonly string[] = ['configured']): Promise<Bench> {
  const database = await createTestDatabase()
  const { url } = database
  await query(url, `insert into intake.teams (name) values ('clinic')`)
  const { recorded, logger } = openRecorder()
  let now = 0
  const sleepers = new Map<() => void, number>()
  const clock = {
    now: () => now,
    sleep: (milliseconds: number) =>
      new Promise<void>((resolve) => void sleepers.set(resolve, now + milliseconds * 1000)),
    pass(seconds: number) {
      now += seconds * 1_000_000
      for (const [wake, at] of sleepers) if (at <= now && sleepers.delete(wake)) wake()
    },
  }
  const session = await openSession({ url, purpose: 'tests' })
  const bounded = openBoundedQueries(url)
  return {
    url,
    recorded,
    clock,
    bounded,
    source: (encryptionKey = KEY) =>
      sourceOf({ bounded, teams: [{ ...TEAM, configured }], encryptionKey, clock, logger }),
    async store(configId, secret, sealedBy = KEY) {
      const key = { teamId: 1, configId }
      await storeSecret(session.db, key, seal(secret, keyOf(sealedBy), placeOf(key)))
    },
    async retire(configId) {
      await retireSecret(session.db, 'clinic', configId)
    },
    async [Symbol.asyncDispose]() {
      await session.close()
      await bounded.close()
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

  it('are said to have arrived, once, where there was none', async () => {
    await using bench = await openBench([])
    const source = bench.source()
    const said = () => bench.recorded.logged.filter((line) => line.includes('a signature secret has arrived'))
    for (let at = 0; at < 2; at += 1) {
      expect(await source.refresh()).toEqual([])
      bench.clock.pass(1)
    }
    expect(said()).toEqual([])
    await bench.store('a', 'stored')
    for (let at = 0; at < 2; at += 1) {
      bench.clock.pass(1)
      expect(await source.refresh()).toEqual(['stored'])
    }
    expect(said()).toEqual([expect.stringContaining('"team":"clinic"')])
  })

  it('are none of a team that was removed, which is known at the next look-up, and no more once it is back', async () => {
    await using bench = await openBench([])
    const source = bench.source()
    const look = async () => {
      bench.clock.pass(1)
      return [await source.refresh(), source.isRemoved()]
    }
    expect(await look()).toEqual([[], false])
    await query(
      bench.url,
      `insert into intake_ops.removed_teams (team_id, name, data) values (1, 'clinic', 'kept')`,
    )
    expect(await look()).toEqual([[], true])
    await query(bench.url, 'delete from intake_ops.removed_teams')
    expect(await look()).toEqual([[], false])
  })

  it('are looked up at most five times a second, and by a look-up that began after the request for them', async () => {
    await using bench = await openBench()
    let looks = 0
    const limits = new Set<unknown>()
    const [source, other] = openSecretSources({
      bounded: {
        ...bench.bounded,
        run(...words: Parameters<typeof bench.bounded.run>) {
          looks += 1
          limits.add(words[0])
          return bench.bounded.run(...words)
        },
      } as BoundedQueries,
      teams: [
        { ...TEAM, configured: ['configured'] },
        { name: 'other', teamId: 2, configured: ['of the other'] },
      ],
      ...{ encryptionKey: KEY, clock: bench.clock, logger: openRecorder().logger },
    }).map(({ secrets }) => secrets) as [SecretSource, SecretSource]
    const first = Array.from({ length: 50 }, () => source.refresh())
    // Its snapshot may be older than what is stored now: later requests wait for the next look-up.
    await Promise.race([first[0], setImmediate()])
    await bench.store('a', 'new')
    const later = [source, source, other].map((each) => each.refresh())
    await Promise.all(first)
    expect(looks).toBe(1)
    bench.clock.pass(0.19)
    expect(await Promise.race([later[0], sleep(20)])).toBeUndefined()
    bench.clock.pass(0.01)
    expect(await Promise.all(later)).toEqual([['configured', 'new'], ['configured', 'new'], ['of the other']])
    expect(looks).toBe(2)
    // With the ration, an answer within two seconds.
    expect([...limits].at(0)).toEqual({ purpose: 'ingest secrets', milliseconds: 1_400 })
  })

  it('of each team are its own, without repeats, and each that cannot be opened is reported', async () => {
    await using bench = await openBench()
    await bench.store('a', 'configured')
    await bench.store('b', 'stored')
    const others = { c: 'of another', d: 'of one more' }
    for (const [configId, secret] of Object.entries(others)) {
      const key = { teamId: 2, configId }
      await query(
        bench.url,
        `insert into intake_ops.webhook_secrets (team_id, config_id, secret) values (2, $1, $2)`,
        [
          configId,
          seal(secret, keyOf(configId === 'd' ? KEY : randomBytes(32).toString('base64')), placeOf(key)),
        ],
      )
    }
    await bench.store('e', 'sealed elsewhere', randomBytes(32).toString('base64'))
    await bench.store('f', 'sealed elsewhere', randomBytes(32).toString('base64'))
    await query(
      bench.url,
      `insert into intake_ops.removed_teams (team_id, name, data) values (3, 'gone', 'kept')`,
    )
    const { recorded, logger } = openRecorder()
    const teams = ['clinic', 'other', 'gone'].map((name, at) => ({
      ...{ name, teamId: at + 1, configured: at === 0 ? ['configured'] : [] },
    }))
    const sources = openSecretSources({
      ...{ bounded: bench.bounded, teams, encryptionKey: KEY, clock: bench.clock, logger },
    })
    const found = await Promise.all(sources.map(({ secrets }) => secrets.refresh()))
    expect(found).toEqual([['configured', 'stored'], ['of one more'], []])
    expect(sources.map(({ name, secrets }) => [name, secrets.isRemoved(), secrets.current()])).toEqual([
      ['clinic', false, ['configured', 'stored']],
      ['other', false, ['of one more']],
      ['gone', true, []],
    ])
    const said = () =>
      recorded.logged.map((line) => JSON.parse(line)).map(({ level, team, msg }) => [level, team, msg])
    const sealed =
      'a stored signature secret cannot be opened: it was stored under another INTAKE_ENCRYPTION_KEY'
    const reported = [
      ...[
        [40, 'clinic', sealed],
        [40, 'clinic', sealed],
        [40, 'other', sealed],
      ],
    ]
    expect(said()).toEqual(reported)
    bench.clock.pass(1)
    await sources[1]!.secrets.refresh()
    expect(said()).toEqual(reported)
  })

  it('cannot be looked up while the warehouse hangs: everybody who waits fails with the same look-up', async () => {
    await using bench = await openBench()
    const failures: ((reason: Error) => void)[] = []
    const bounded = {
      run: () => new Promise<never>((_, reject) => void failures.push(reject)),
    } as unknown as BoundedQueries
    const { logger } = openRecorder()
    const source = sourceOf({
      ...{ bounded, encryptionKey: KEY, clock: bench.clock, logger },
      teams: [{ ...TEAM, configured: [] }],
    })
    const first = source.refresh()
    await setImmediate()
    const second = source.refresh()
    failures[0]!(new Error('too slow'))
    await expect(first).rejects.toThrow('too slow')
    await expect(second).rejects.toThrow('too slow')
    bench.clock.pass(1)
    const third = source.refresh()
    await expect.poll(() => failures.length).toBe(2)
    failures[1]!(new Error('still'))
    await expect(third).rejects.toThrow('still')
  })

  it('are refreshed in the background when they are old, so that a retired one is dropped', async () => {
    await using bench = await openBench()
    await bench.store('a', 'stored')
    const source = bench.source()
    await source.refresh()
    await bench.retire('a')
    const looks = vi.spyOn(bench.bounded, 'run')
    bench.clock.pass(60)
    expect(source.current()).toEqual(['configured', 'stored'])
    await setImmediate()
    expect(looks).not.toHaveBeenCalled()
    bench.clock.pass(1)
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
    // Each team that has one is named.
    await query(
      bench.url,
      `insert into intake_ops.webhook_secrets (team_id, config_id, secret)
       select 2, config_id, secret from intake_ops.webhook_secrets where config_id = 'a'`,
    )
    const { recorded, logger } = openRecorder()
    const [first] = openSecretSources({
      ...{ bounded: bench.bounded, encryptionKey: null, clock: bench.clock, logger },
      teams: [TEAM, { name: 'other', teamId: 2 }].map((team) => ({ ...team, configured: [] })),
    })
    await first!.secrets.refresh()
    expect(recorded.logged.map((line) => JSON.parse(line).team)).toEqual(['clinic', 'other'])
  })
})

describe('an ingester', () => {
  it('accepts an event signed with a secret that was just stored, and looks it up again if unknown', async () => {
    await using bench = await openBench([])
    const source = bench.source()
    await using scene = await openScene({ teams: [{ ...TEAM, secrets: source }] })
    const send = async () => (await post(scene.ingester.url, eventOf(), { secret: 'new' })).status
    bench.clock.pass(2)
    expect(await send()).toBe(503)
    await bench.store('a', 'other')
    bench.clock.pass(2)
    expect(await send()).toBe(400)
    await bench.store('b', 'new')
    bench.clock.pass(2)
    expect(await send()).toBe(200)
  })

  it('accepts the first event signed with a secret that was stored during a look-up for another', async () => {
    await using database = await createTestDatabase()
    await query(database.url, `insert into intake.teams (name) values ('clinic')`)
    await using bounded = openBoundedQueries(database.url)
    const { logger } = openRecorder()
    const teams = openSecretSources({
      ...{ bounded, encryptionKey: KEY, clock: systemClock, logger },
      teams: [{ ...TEAM, configured: ['configured'] }],
    })
    await using scene = await openScene({ url: database.url, teams })
    const send = async (secret: string) => (await post(scene.ingester.url, eventOf(), { secret })).status
    await using session = await openSession({ url: database.url, purpose: 'tests' })
    const sessions = () =>
      query(
        database.url,
        `select pid from pg_stat_activity
        where datname = current_database() and application_name in ('intake-sync bounded query', 'intake-sync ingest secrets')`,
      )
    expect(await send('unknown')).toBe(400)
    const before = await sessions()
    const forged = Array.from({ length: 50 }, () => send('unknown'))
    const key = { teamId: 1, configId: 'a' }
    await storeSecret(session.db, key, seal('new', keyOf(KEY), placeOf(key)))
    expect(await send('new')).toBe(200)
    expect(new Set(await Promise.all(forged))).toEqual(new Set([400]))
    // Their look-ups share the connections of the ingester.
    expect(before).toHaveLength(1)
    expect(await sessions()).toEqual(before)
  })

  it('answers 503, not 400, when it cannot look up a possibly new secret', async () => {
    const { logger } = openRecorder()
    await using bounded = openBoundedQueries('postgres://nobody@127.0.0.1:9/none')
    const secrets = sourceOf({
      bounded,
      teams: [{ ...TEAM, configured: ['x'] }],
      encryptionKey: KEY,
      clock: systemClock,
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
