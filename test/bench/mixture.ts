/**
 * Stored events of four streams and three teams with the same ids, late, duplicate, partial and rendered again, drained
 * and compared with one team's patients in order.
 *
 * Invariant: all are stored before the drain is opened, and the clock runs until none is pending. A figure counts only
 * when, after all refetches, every row of every table of every team equals the service.
 */
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { openRefetcher } from '../../src/extract/conflicts/refetcher.ts'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { faultsOf } from '../support/mixture/judge.ts'
import { type Mixture, makeMixture } from '../support/mixture/mixture.ts'
import { startMixtureService } from '../support/mixture/service.ts'
import { sendAll } from '../support/mixture/store.ts'
import { openDrainChild } from './drain.ts'
import { openBenchIngester, SECRET } from './ingester.ts'
import { peakOf } from './machine.ts'
import { type BenchRow, median, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const ROUNDS = 3
const AIM = 0.5

interface Drained {
  /** Events per second. */
  readonly rate: number
  readonly peakBytes: number | null
  /** Records that were fetched by id, as a share of the events. */
  readonly asked: number
}

export async function benchMixture(warehouse: BenchWarehouse, events: number): Promise<readonly BenchRow[]> {
  await keepInboxDays(warehouse.url, { days: 30, now: new Date() })
  const plain = (seed: number, count = events) =>
    makeMixture({ seed, events: count, teams: ['a'], streams: ['patients'], inOrder: true })
  const mixed = (seed: number, count = events) => makeMixture({ seed, events: count })
  // The first run compiles the code.
  await drainAll(warehouse, mixed(0, 2_000))
  const rounds: { readonly floor: Drained; readonly mixture: Drained }[] = []
  while (rounds.length < ROUNDS) {
    const floor = await drainAll(warehouse, plain(rounds.length + 1))
    rounds.push({ floor, mixture: await drainAll(warehouse, mixed(rounds.length + 1)) })
  }
  const of = (value: (round: (typeof rounds)[number]) => number) => median(rounds.map(value))
  const ratio = of(({ floor, mixture }) => mixture.rate / floor.rate)
  return [
    {
      what: `${events} stored events of four streams and three teams with the same ids, mixed, drained`,
      figure: of(({ mixture }) => mixture.rate),
      unit: 'events/s',
      floorIs: "as many of one team's patients, in order",
      floor: of(({ floor }) => floor.rate),
      ratio,
      aim: `≥ ${AIM}`,
      met: ratio >= AIM,
      peakBytes: rounds.at(-1)!.mixture.peakBytes,
      notes: `${Math.round(of(({ mixture }) => mixture.asked) * 100)} records asked for in 100 events`,
    },
  ]
}

async function drainAll(warehouse: BenchWarehouse, mixture: Mixture): Promise<Drained> {
  const { url, session } = warehouse
  await empty(warehouse)
  const teams: { readonly name: string; readonly teamId: number }[] = []
  for (const name of mixture.teams) teams.push({ name, teamId: await teamIdOf(session.db, name) })
  {
    await using ingester = await openBenchIngester(url, () => {}, teams)
    await sendAll(ingester.url, mixture.deliveries, SECRET, 64)
  }
  await session.client.query('checkpoint')
  const stored = await count(warehouse, 'intake_raw.inbox')
  await using drain = await openDrainChild(url, teams)
  const { seconds } = await timed(() => drain.idle())
  const peakBytes = peakOf(drain.pid)
  const small = await count(warehouse, `(${SMALL_BATCHES}) as batch`)
  if (small > MAX_SMALL_BATCHES) throw new Error(`${small} small batches: events were tried in smaller parts`)
  const asked = await count(warehouse, 'intake_ops.refetches')
  await askAll(warehouse, mixture, teams)
  await using judge = await openSession({ url, purpose: 'bench' })
  const faults = await faultsOf(
    async <Found extends object>(text: string, values: readonly unknown[] = []) =>
      (await judge.client.query<Found>(text, [...values])).rows,
    mixture,
  )
  if (faults.length > 0) throw new Error(faults.join('; '))
  return { rate: stored / seconds, peakBytes, asked: asked / stored }
}

/** Transactions that settled few events: the last ones, unless a batch was halved until an event was alone. */
const SMALL_BATCHES = 'select from intake_raw.inbox group by xmin::text having count(*) < 100'
const MAX_SMALL_BATCHES = 3

/** Fetches every conflicting record, without the pauses between two attempts. */
async function askAll(
  { url, session }: BenchWarehouse,
  mixture: Mixture,
  teams: readonly { readonly name: string; readonly teamId: number }[],
): Promise<void> {
  await using service = await startMixtureService(mixture)
  await using refetcher = openRefetcher({
    url,
    teams: teams.map((team) => ({ ...team, ...service.of(team.name), apiVersion: 'v2.1', concurrency: 8 })),
    ...{ clock: systemClock, random: Math.random, pollMs: 20 },
    ...{ logger: pino({ level: 'silent' }), watch: { refetched() {}, defect() {} } },
  })
  while ((await count({ session }, 'intake_ops.refetches')) > 0) {
    await session.client.query(
      `update intake_ops.refetches refetch set due_at = now() from (
         select team_id, stream, id from intake_ops.refetches
         where due_at between now() and now() + interval '30 seconds' for update skip locked
       ) waiting
       where (refetch.team_id, refetch.stream, refetch.id) = (waiting.team_id, waiting.stream, waiting.id)`,
    )
    await systemClock.sleep(100)
    const trouble = refetcher.trouble()
    if (trouble !== null) throw new Error(trouble)
  }
}

async function count({ session }: Pick<BenchWarehouse, 'session'>, table: string): Promise<number> {
  const { rows } = await session.client.query<{ count: number }>(`select count(*)::int from ${table}`)
  return rows[0]!.count
}

async function empty({ session }: BenchWarehouse): Promise<void> {
  const { rows } = await session.client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'intake' and tablename <> 'teams'
       or schemaname = 'intake_raw' and tablename in ('records', 'record_history', 'inbox', 'set_aside')
       or schemaname = 'intake_ops' and tablename in ('refetches', 'dead_letters')`,
  )
  await session.client.query(`truncate ${rows.map(({ name }) => name).join(', ')}`)
}
