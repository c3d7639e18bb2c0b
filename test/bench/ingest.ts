/**
 * Webhook events made durable per second, and the time to the answer, with the drain off.
 *
 * Invariant: a figure counts only when every acknowledged event is in the inbox and none was rejected; the bare server
 * runs in this process, the ingester in one of its own, and both get requests from the same sender, in another process.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { programOf } from './child.ts'
import { insertRate, openBareServer } from './ingest-floors.ts'
import type { SendOrders, SendReport } from './ingest-sender.ts'
import { type IngesterProcess, SECRET, startBenchIngester } from './ingester.ts'
import { peakOf } from './machine.ts'
import { type BenchRow, median } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const CONNECTIONS = 64
const BYTES = 1024
const SAMPLES = 5
/** Runs at half the rate. The first is not counted: its batches are small, and their code is not compiled yet. */
const SUSTAINED_SAMPLES = 4
const PGBENCH_SECONDS = 4

export async function benchIngest(warehouse: BenchWarehouse, events: number): Promise<readonly BenchRow[]> {
  await keepInboxDays(warehouse.url, { days: 30, now: new Date() })
  const stored: number[] = []
  const bare: number[] = []
  const inserted: number[] = []
  let by = ''
  await using ingester = await startBenchIngester(warehouse.url)
  await using server = await openBareServer()
  // The first run compiles the code.
  await storedRate(warehouse, ingester, { events })
  await send({ origin: server.url, events })
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    const report = await storedRate(warehouse, ingester, { events })
    stored.push(report.acknowledged / report.seconds)
    const answered = await send({ origin: server.url, events })
    bare.push(answered.acknowledged / answered.seconds)
    await emptyInbox(warehouse)
    const inserts = await insertRate(warehouse.url, CONNECTIONS, PGBENCH_SECONDS)
    inserted.push(inserts.rate)
    by = inserts.by
  }
  const figure = median(stored)
  const rate = Math.round(figure / 2)
  const sustained: SendReport[] = []
  while (sustained.length < SUSTAINED_SAMPLES)
    sustained.push(await storedRate(warehouse, ingester, { events: Math.min(events, rate * 8), rate }))
  const ofSustained = (value: (report: SendReport) => number) => median(sustained.slice(1).map(value))
  const p99 = ofSustained((report) => report.p99)
  const middle = ofSustained((report) => report.median)
  const peakBytes = peakOf(ingester.pid)
  const what = `webhook events made durable, ${CONNECTIONS} connections, 1 KB, drain off`
  return [
    { ...rowOf(what, figure, median(inserted), `one-row inserts: ${by}`, 1.2), peakBytes },
    { ...rowOf(what, figure, median(bare), 'a bare HTTP server', 0.35), peakBytes },
    {
      peakBytes,
      what: `the time to acknowledge one, at ${rate}/s, p99`,
      figure: p99,
      unit: 'ms',
      floorIs: 'the median',
      floor: middle,
      ratio: p99 / middle,
      aim: '< 25 ms',
      met: p99 < 25,
    },
  ]
}

function rowOf(what: string, figure: number, floor: number, floorIs: string, aim: number): BenchRow {
  const ratio = figure / floor
  return { what, figure, unit: 'events/s', floorIs, floor, ratio, aim: `≥ ${aim}`, met: ratio >= aim }
}

/** Sends to the ingester and counts the stored events. */
async function storedRate(
  warehouse: BenchWarehouse,
  ingester: IngesterProcess,
  orders: Pick<SendOrders, 'events' | 'rate'>,
): Promise<SendReport> {
  await emptyInbox(warehouse)
  const report = await send({ origin: ingester.url, ...orders })
  const { rows } = await warehouse.session.client.query<{ count: number }>(
    'select count(*)::int from intake_raw.inbox',
  )
  if (report.refused > 0 || rows[0]?.count !== orders.events) {
    throw new Error(`${report.acknowledged} of ${orders.events} acknowledged, ${rows[0]?.count} in the inbox`)
  }
  return report
}

export async function emptyInbox({ session }: BenchWarehouse): Promise<void> {
  await session.client.query('truncate intake_raw.inbox')
  await session.client.query('checkpoint')
}

export async function send(
  orders: Pick<SendOrders, 'origin' | 'events' | 'rate' | 'whole'>,
): Promise<SendReport> {
  const seed = randomBytes(6).toString('hex')
  const whole: SendOrders = { bytes: BYTES, connections: CONNECTIONS, seed, secret: SECRET, ...orders }
  const file = programOf('ingest-sender')
  const child = spawn(process.execPath, [...process.execArgv, file, JSON.stringify(whole)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  try {
    await lines.next()
    child.stdin.write('go\n')
    const { value, done } = await lines.next()
    if (done === true) throw new Error('the sender of the benchmark ended early')
    return JSON.parse(value) as SendReport
  } finally {
    child.stdin.end()
    await ended
  }
}
