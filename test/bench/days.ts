/**
 * Storing events in a day that has millions already, and while a day with millions is dropped.
 *
 * Invariant: a figure counts only when every acknowledged event is in the inbox. What an event costs the warehouse is
 * counted as well: bytes of the write-ahead log and pages in it, which other work on the machine does not change.
 */
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { send } from './ingest.ts'
import { startBenchIngester } from './ingester.ts'
import { peakOf } from './machine.ts'
import { type BenchRow, median, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const SAMPLES = 3
const EVENTS = 30_000
const OLD_DAYS = 60
/** Events per second while a day is dropped. */
const CALM_RATE = 1_000
const CALM_SECONDS = 12

export async function benchDays(
  warehouse: BenchWarehouse,
  { inDay, dropped }: { readonly inDay: number; readonly dropped: number },
): Promise<readonly BenchRow[]> {
  const { url, session } = warehouse
  await keepInboxDays(url, { days: 30, now: new Date() })
  await using ingester = await startBenchIngester(url)
  await send({ origin: ingester.url, events: EVENTS })
  const few = await measure(warehouse, ingester.url)
  await fill(warehouse, 0, inDay, 'pending')
  // As after hours of such a rate: the log was written out, and each page is written to it again.
  await session.client.query('checkpoint')
  const many = await measure(warehouse, ingester.url)

  await session.client.query(`select intake_raw.add_inbox_day(current_date - ${OLD_DAYS}, 0)`)
  await fill(warehouse, OLD_DAYS, dropped, 'done')
  await session.client.query('checkpoint')
  const calm = { origin: ingester.url, events: CALM_RATE * CALM_SECONDS, rate: CALM_RATE }
  const before = await send(calm)
  const [drop, during] = await Promise.all([
    timed(() => keepInboxDays(url, { days: 30, now: new Date() })),
    send(calm),
  ])
  if (drop.result.dropped !== 1) throw new Error('the day was not dropped')
  for (const { refused } of [before, during])
    if (refused > 0) throw new Error(`${refused} events were refused`)
  const ratio = many.rate / few.rate
  const peakBytes = peakOf(ingester.pid)
  return [
    {
      what: `events made durable in a day that has ${inDay} already`,
      figure: many.rate,
      unit: 'events/s',
      floorIs: 'in an empty day',
      floor: few.rate,
      ratio,
      aim: '≥ 0.8',
      met: ratio >= 0.8,
      peakBytes,
      notes: `write-ahead log of an event: ${many.bytes} bytes and ${many.pages} pages; in an empty day ${few.bytes} and ${few.pages}`,
    },
    {
      what: `the slowest answer while a day of ${dropped} events is dropped in ${drop.seconds.toFixed(1)} s`,
      figure: during.greatest,
      unit: 'ms',
      floorIs: 'the same without',
      floor: before.greatest,
      ratio: during.greatest / before.greatest,
      aim: '< 500 ms',
      met: during.greatest < 500,
      peakBytes,
    },
  ]
}

interface Measured {
  readonly rate: number
  /** Of the write-ahead log, per event. */
  readonly bytes: number
  readonly pages: number
}

async function measure({ session }: BenchWarehouse, origin: string): Promise<Measured> {
  const logged = async () =>
    (
      await session.client.query<{ bytes: number; pages: number; events: number }>(
        `select wal_bytes::float8 as bytes, wal_fpi::float8 as pages, (select last_value::float8 from intake_raw.inbox_seq) as events
         from pg_stat_wal`,
      )
    ).rows[0]!
  const rates: number[] = []
  const before = await logged()
  while (rates.length < SAMPLES) {
    const { acknowledged, refused, seconds } = await send({ origin, events: EVENTS })
    if (refused > 0) throw new Error(`${refused} events were refused`)
    rates.push(acknowledged / seconds)
  }
  const after = await logged()
  const events = after.events - before.events
  return {
    rate: median(rates),
    bytes: Math.round((after.bytes - before.bytes) / events),
    pages: Number(((after.pages - before.pages) / events).toFixed(2)),
  }
}

/** Events of 1 KB with random ids, which spread over the whole index. */
async function fill(
  { session }: BenchWarehouse,
  daysAgo: number,
  events: number,
  status: 'pending' | 'done',
): Promise<void> {
  await session.client.query(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id,
       body, status, settled_at)
     select 1, gen_random_uuid()::text, sha256(number::text::bytea), (now() at time zone 'UTC')::date - $1::int,
       now() - make_interval(days => $1), 'updated', 'patient', 'p-' || number,
       convert_to(repeat('x', 1024), 'UTF8'), $3, case when $3 = 'done' then now() - make_interval(days => $1 - 1) end
     from generate_series(1, $2::int) as number`,
    [daysAgo, events, status],
  )
  // Or autovacuum would do it while something is measured, and keep the day from being dropped at once.
  await session.client.query('vacuum (analyze) intake_raw.inbox')
}
