/**
 * What a record and an event cost Postgres: write-ahead log, pages in it, and disk. Other work on the machine changes none
 * of them. The constants of scripts/capacity.mjs come from here.
 *
 * Invariant: a figure counts only when every record and event is stored.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseJson } from '../../src/core/json.ts'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { patients } from '../../src/streams/patients.ts'
import { openDrainChild } from './drain.ts'
import { copyFloor, readyLines } from './floors.ts'
import { emptyInbox, send } from './ingest.ts'
import { startBenchIngester } from './ingester.ts'
import { pagesOf, type Sample } from './pages.ts'
import { patientSample } from './patient-pages.ts'
import { responseSample } from './response-pages.ts'
import { runRoad } from './road.ts'
import type { BenchRow } from './row.ts'
import { type BenchWarehouse, countRows, emptyTables } from './warehouse.ts'

/** Records that are loaded right after a checkpoint: few against the pages of the indexes, so that most touch a new one. */
const AFTER_CHECKPOINT = 1_000

export async function benchStorage(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  return [
    ...(await ofStream(warehouse, patientSample, records)),
    ...(await ofStream(warehouse, responseSample, records)),
    ...(await ofEvents(warehouse, records)),
  ]
}

async function ofStream(
  warehouse: BenchWarehouse,
  sample: Sample,
  records: number,
): Promise<readonly BenchRow[]> {
  const { name } = sample.stream
  const pages = Array.from({ length: pagesOf(sample, records) }, (_, page) => sample.pageAt(page, records))
  const sent = pages.reduce((sum, page) => sum + page.length, 0) / records
  await emptyTables(warehouse, sample.stream)
  using lines = readyLines(sample.stream, pages)
  const copied = await usedBy(warehouse, records, () => copyFloor(warehouse, lines))
  await emptyTables(warehouse, sample.stream)
  const first = await usedBy(warehouse, records, () => runRoad(warehouse.url, sample, records))
  const counts = await countRows(warehouse, sample.stream)
  if (counts[0] !== records) throw new Error(`${counts[0]} of ${records} records were loaded`)
  const rows = counts.reduce((sum, count) => sum + count, 0) / records
  const again = await usedBy(warehouse, records, () => runRoad(warehouse.url, sample, records))
  const more = records + AFTER_CHECKPOINT
  await warehouse.session.client.query('checkpoint')
  const next = await usedBy(warehouse, AFTER_CHECKPOINT, () => runRoad(warehouse.url, sample, more))
  const changed = await usedBy(warehouse, more, () => runRoad(warehouse.url, changedOnce(sample), more))
  await emptyTables(warehouse, sample.stream)
  const log = (what: string, used: Used): BenchRow => ({
    ...{ what: `write-ahead log: ${what} of ${records} ${name}`, figure: used.log, unit: 'bytes/record' },
    ...{ floorIs: 'COPY of ready-made lines', floor: copied.log, ratio: used.log / copied.log },
    ...{ aim: '–', met: true, notes: `${used.pages.toFixed(2)} pages` },
  })
  return [
    log('first load', first),
    log('nothing changed', again),
    log('everything changed', changed),
    {
      ...{ what: `disk of ${records} ${name}`, figure: first.disk, unit: 'bytes/record' },
      ...{ floorIs: 'bytes of a page', floor: sent, ratio: first.disk / sent, aim: '–', met: true },
      notes: `${rows.toFixed(2)} rows`,
    },
    {
      ...{
        what: `pages logged in full: ${name} after a checkpoint`,
        figure: next.pages,
        unit: 'pages/record',
      },
      ...{ floorIs: 'without a checkpoint', floor: first.pages, ratio: next.pages / first.pages },
      ...{ aim: '–', met: true },
    },
  ]
}

/** The same list, in which each record was updated once more. */
function changedOnce(sample: Sample): Sample {
  return {
    ...sample,
    pageAt(page, total) {
      const { value } = parseJson(sample.pageAt(page, total)) as { value: { results: object[] } }
      const results = value.results.map((each) => ({ ...each, updated_at: '2026-11-01T00:00:00.000000Z' }))
      return Buffer.from(JSON.stringify({ ...value, results }))
    },
  }
}

async function ofEvents(warehouse: BenchWarehouse, events: number): Promise<readonly BenchRow[]> {
  await keepInboxDays(warehouse.url, { days: 30, now: new Date() })
  await emptyInbox(warehouse)
  await using drain = await openDrainChild(warehouse.url)
  await using ingester = await startBenchIngester(warehouse.url)
  const used = await usedBy(warehouse, events, async () => {
    const { refused } = await send({ origin: ingester.url, whole: true, events })
    if (refused > 0) throw new Error(`${refused} events were refused`)
    await drain.idle()
  })
  const { rows } = await warehouse.session.client.query<{ bytes: number }>(
    `select sum(pg_total_relation_size(inhrelid))::float8 / ${events} as bytes
     from pg_inherits where inhparent = 'intake_raw.inbox'::regclass`,
  )
  await emptyInbox(warehouse)
  await emptyTables(warehouse, patients)
  return [
    {
      ...{ what: 'write-ahead log: a patient by webhook, stored and drained', figure: used.log },
      ...{ unit: 'bytes/event', floorIs: 'bytes of an event', floor: 1_024, ratio: used.log / 1_024 },
      ...{ aim: '–', met: true, notes: `${used.pages.toFixed(2)} pages` },
    },
    {
      ...{ what: 'disk of an event in the inbox', figure: rows[0]!.bytes, unit: 'bytes/event' },
      ...{ floorIs: 'bytes of an event', floor: 1_024, ratio: rows[0]!.bytes / 1_024, aim: '–', met: true },
    },
  ]
}

interface Used {
  /** Bytes of the write-ahead log per record. */
  readonly log: number
  /** Of these, pages that were logged in full, per record. */
  readonly pages: number
  /** Bytes by which the database grew, per record. */
  readonly disk: number
}

async function usedBy(
  { session }: BenchWarehouse,
  records: number,
  work: () => Promise<unknown>,
): Promise<Used> {
  const look = async () =>
    (
      await session.client.query<Used>(
        `select (pg_current_wal_insert_lsn() - '0/0')::float8 as log, wal_fpi::float8 as pages,
           pg_database_size(current_database())::float8 as disk
         from pg_stat_wal`,
      )
    ).rows[0]!
  const before = await look()
  await work()
  // A session counts its pages up to a second after it logged them.
  await sleep(2_000)
  const after = await look()
  const per = (of: (used: Used) => number) => (of(after) - of(before)) / records
  return { log: per((used) => used.log), pages: per((used) => used.pages), disk: per((used) => used.disk) }
}
