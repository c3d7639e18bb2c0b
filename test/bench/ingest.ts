/**
 * Webhook events made durable a second, and the time to the answer, with the drain off.
 *
 * Invariant: a figure counts only when every acknowledged event is in the inbox and none was refused; ingester and
 * bare server run in this process and are asked by the same sender, which has its own.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { keepInboxDays } from '../../src/ingest/inbox-days.ts'
import { type Ingester, openIngester } from '../../src/ingest/server.ts'
import { insertRate, openBareServer } from './ingest-floors.ts'
import type { SendOrders, SendReport } from './ingest-sender.ts'
import { type BenchRow, median } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const CONNECTIONS = 64
const BYTES = 1024
const SECRET = 'a secret of the benchmark'
const SAMPLES = 3
const PGBENCH_SECONDS = 4

export async function benchIngest(warehouse: BenchWarehouse, events: number): Promise<readonly BenchRow[]> {
  await keepInboxDays(warehouse.url, { days: 30, now: new Date() })
  const stored: number[] = []
  const bare: number[] = []
  const inserted: number[] = []
  let by = ''
  await using ingester = await openBenchIngester(warehouse.url)
  await using server = await openBareServer()
  await storedRate(warehouse, ingester, { events: events / 2 })
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
  const report = await storedRate(warehouse, ingester, { events: Math.min(events, rate * 8), rate })
  const what = `webhook events made durable, ${CONNECTIONS} connections, 1 KB, drain off`
  return [
    rowOf(what, figure, median(inserted), `one-row inserts: ${by}`, 1.2),
    rowOf(what, figure, median(bare), 'a bare HTTP server', 0.35),
    {
      what: `the time to acknowledge one, at ${rate}/s, p99`,
      figure: report.p99,
      unit: 'ms',
      floorIs: 'the median',
      floor: report.median,
      ratio: report.p99 / report.median,
      aim: '< 25 ms',
      met: report.p99 < 25,
    },
  ]
}

function rowOf(what: string, figure: number, floor: number, floorIs: string, aim: number): BenchRow {
  const ratio = figure / floor
  return { what, figure, unit: 'events/s', floorIs, floor, ratio, aim: `≥ ${aim}`, met: ratio >= aim }
}

/** `onStored` wakes a drain. */
export function openBenchIngester(url: string, onStored = () => {}): Promise<Ingester> {
  const secrets = { current: () => [SECRET], refresh: async () => [SECRET] }
  return openIngester({
    url,
    host: '127.0.0.1',
    port: 0,
    teams: [{ name: 'bench', teamId: 1, secrets }],
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    watch: { stored() {}, rejected() {}, committed() {} },
    onStored,
  })
}

/** Sends to the ingester and counts what it stored. */
async function storedRate(
  warehouse: BenchWarehouse,
  ingester: Ingester,
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
  const file = fileURLToPath(new URL('ingest-sender.ts', import.meta.url))
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
