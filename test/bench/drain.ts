/**
 * Webhook events made durable and drained into tables, and the time until an event is a row.
 *
 * Invariant: a figure counts only when every acknowledged event was settled and is a row. Ingester, drain and sender
 * have a process each: `serve --no-drain` and `serve --no-ingest`, as for a high rate of events. The clock runs until
 * the inbox is empty, so that a backlog counts.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { programOf } from './child.ts'
import { emptyInbox, send } from './ingest.ts'
import { startBenchIngester } from './ingester.ts'
import { peakOf } from './machine.ts'
import { patientSample } from './patient-pages.ts'
import { PEER, peerRate } from './peers.ts'
import { runRoad } from './road.ts'
import { type BenchRow, timed } from './row.ts'
import { type BenchWarehouse, countRows, emptyTables } from './warehouse.ts'

/** What the closest public tool wrote per second when it was last measured, for a run without it. */
const EARLIER_PEER = 3_180
const CALM_RATE = 1_000
const CALM_SECONDS = 10
const BACKFILL_RECORDS = 50_000

export async function benchDrain(warehouse: BenchWarehouse, events: number): Promise<readonly BenchRow[]> {
  await keepInboxDays(warehouse.url, { days: 30, now: new Date() })
  let visible: number[] = []
  await using drain = await openDrainChild(warehouse.url)
  await using ingester = await startBenchIngester(warehouse.url)

  /** Sends events and waits until they are rows, with a load running `meanwhile`. Returns the duration in seconds. */
  async function round(
    orders: { events: number; rate?: number },
    meanwhile = { records: 0, loaded: Promise.resolve<unknown>(null) },
  ): Promise<number> {
    const sent = await send({ origin: ingester.url, whole: true, ...orders })
    const rest = await timed(() => drain.idle())
    visible = rest.result
    await meanwhile.loaded
    const [records] = await countRows(warehouse, patients)
    if (
      sent.refused > 0 ||
      visible.length !== orders.events ||
      records !== orders.events + meanwhile.records
    ) {
      throw new Error(
        `${sent.refused} refused, ${visible.length} of ${orders.events} drained, ${records} rows`,
      )
    }
    return sent.seconds + rest.seconds
  }

  await empty(warehouse)
  await round({ events: Math.min(events, 5_000) })
  await empty(warehouse)
  const sustained = events / (await round({ events }))
  const measuredPeer = await peerRate(warehouse, 'events')
  const peer = measuredPeer ?? EARLIER_PEER
  await empty(warehouse)
  let behindSnapshot: number
  {
    await using other = await openSession({ url: warehouse.url, purpose: 'bench' })
    await other.client.query('begin isolation level repeatable read')
    await other.client.query('select count(*) from intake.teams')
    behindSnapshot = events / (await round({ events }))
    await other.client.query('rollback')
  }
  await empty(warehouse)
  const calm = { events: CALM_RATE * CALM_SECONDS, rate: CALM_RATE }
  const loaded = runRoad(warehouse.url, patientSample, BACKFILL_RECORDS)
  await Promise.all([round(calm, { records: BACKFILL_RECORDS, loaded }), loaded])
  const peakBytes = peakOf(drain.pid)
  const sorted = visible.sort((a, b) => a - b)
  const at = (part: number) => (sorted[Math.floor((sorted.length - 1) * part)] ?? 0) * 1_000
  return [
    {
      what: `webhook events made durable and drained into tables, ${events} of 1 KB`,
      figure: sustained,
      unit: 'events/s',
      floorIs: measuredPeer === null ? `${PEER}, measured earlier` : PEER,
      floor: peer,
      ratio: sustained / peer,
      aim: '≥ 3',
      met: sustained >= 3 * peer,
      peakBytes,
    },
    {
      what: 'the same while another session holds an older snapshot open, as pg_dump does',
      figure: behindSnapshot,
      unit: 'events/s',
      floorIs: 'without it',
      floor: sustained,
      ratio: behindSnapshot / sustained,
      aim: '≥ 0.8',
      met: behindSnapshot >= 0.8 * sustained,
      peakBytes,
    },
    {
      what: `from an event's arrival to its row at ${CALM_RATE}/s, during a backfill of ${BACKFILL_RECORDS}, p99`,
      figure: at(0.99),
      unit: 'ms',
      floorIs: 'the median',
      floor: at(0.5),
      ratio: at(0.99) / at(0.5),
      aim: '< 1000 ms',
      met: at(0.99) < 1_000,
      peakBytes,
    },
  ]
}

interface DrainChild extends AsyncDisposable {
  readonly pid: number
  /** Waits until nothing is left; returns the seconds from each event's arrival to its row since the last call. */
  idle(): Promise<number[]>
}

export async function openDrainChild(
  url: string,
  teams: readonly { readonly name: string; readonly teamId: number }[] = [{ name: 'bench', teamId: 1 }],
): Promise<DrainChild> {
  const file = programOf('drain-child')
  const child = spawn(process.execPath, [...process.execArgv, file, url, JSON.stringify(teams)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  await lines.next()
  return {
    pid: child.pid!,
    async idle() {
      child.stdin.write('idle\n')
      const { value, done } = await lines.next()
      if (done === true) throw new Error('the drain of the benchmark ended early')
      return JSON.parse(value) as number[]
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await ended
    },
  }
}

async function empty(warehouse: BenchWarehouse): Promise<void> {
  await emptyInbox(warehouse)
  await emptyTables(warehouse, patients)
}
