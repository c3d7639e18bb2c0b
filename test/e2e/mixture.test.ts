/**
 * All cases of event order together: events of four streams and three teams with the same ids, late, duplicate, partial,
 * rendered again, tied, and stamped in another order, in the same batches.
 */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { openRefetcher } from '../../src/extract/conflicts/refetcher.ts'
import { openDrain } from '../../src/ingest/drain/drain.ts'
import { settleOneByOne } from '../../src/ingest/drain/settle-one-by-one.ts'
import { openIngester } from '../../src/ingest/http/server.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { silent, unwatched } from '../ingest/drain/scene.ts'
import { known, PATIENT, SECRET } from '../ingest/support/ingest.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { faultsOf } from '../support/mixture/judge.ts'
import { type Mixture, makeMixture } from '../support/mixture/mixture.ts'
import { type MixtureService, startMixtureService } from '../support/mixture/service.ts'
import { sendAll } from '../support/mixture/store.ts'

vi.mock('../../src/ingest/drain/settle-one-by-one.ts', async (original) => {
  const module = await original<typeof import('../../src/ingest/drain/settle-one-by-one.ts')>()
  return { ...module, settleOneByOne: vi.fn(module.settleOneByOne) }
})

interface Team {
  readonly name: string
  readonly teamId: number
}

let database: TestDatabase
let session: Session

beforeEach(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'mixture' })
  vi.mocked(settleOneByOne).mockClear()
})

afterEach(async () => {
  await session.close()
  await database.drop()
})

const query = <Found extends object>(text: string, values?: readonly unknown[]) =>
  rowsOf<Found>(session, text, values)

async function teamsOf({ teams }: Mixture): Promise<readonly Team[]> {
  const found: Team[] = []
  for (const name of teams) found.push({ name, teamId: await teamIdOf(session.db, name) })
  return found
}

async function store(teams: readonly Team[], { deliveries }: Mixture): Promise<void> {
  await using ingester = await openIngester({
    url: database.url,
    ...{
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger: silent,
      onStored: () => {},
      limits: PATIENT,
    },
    teams: teams.map((team) => ({ ...team, secrets: known(SECRET) })),
    watch: { stored() {}, rejected() {}, committed() {} },
  })
  await sendAll(ingester.url, deliveries, SECRET)
}

/** `batch`: events per batch; with more drains, one more often has a later event of a record than another. */
async function drain(teams: readonly Team[], drains: number, batch: number): Promise<void> {
  const each = async () => {
    const options = { clock: systemClock, logger: silent, watch: unwatched, batch }
    await using opened = openDrain({ url: database.url, teams, ...options })
    await opened.idle()
  }
  await Promise.all(Array.from({ length: drains }, each))
}

/** Fetches every conflicting record; delayed refetches are due at once, and running ones are not touched. */
async function askAll(teams: readonly Team[], service: MixtureService): Promise<void> {
  await using refetcher = openRefetcher({
    url: database.url,
    teams: teams.map((team) => ({ ...team, ...service.of(team.name), apiVersion: 'v2.1', concurrency: 8 })),
    ...{ clock: systemClock, random: Math.random, logger: silent, watch: unwatched, pollMs: 20 },
  })
  await vi.waitFor(
    async () => {
      await query(
        `update intake_ops.refetches set due_at = now() where due_at between now() and now() + interval '30 seconds'`,
      )
      const [asked] = await query<{ count: number }>('select count(*)::int from intake_ops.refetches')
      expect(asked!.count, refetcher.trouble() ?? 'records asked for').toBe(0)
    },
    { timeout: 120_000, interval: 50 },
  )
}

test.each([
  { drains: 1, batch: 1_000, seed: 1, events: 4_000 },
  { drains: 2, batch: 40, seed: 2, events: 1_500 },
])(
  'a mixture of streams and teams ends as the service is, without single retries: $drains drains, batches of $batch',
  async ({ drains, batch, seed, events }) => {
    const mixture = makeMixture({ seed, events })
    const teams = await teamsOf(mixture)
    await using service = await startMixtureService(mixture)
    await store(teams, mixture)
    await drain(teams, drains, batch)
    expect(vi.mocked(settleOneByOne).mock.calls.length).toBe(0)
    await askAll(teams, service)
    expect(await faultsOf(query, mixture)).toEqual([])
  },
)
