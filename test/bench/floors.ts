/** The floors of loading: one connection's COPY of ready-made lines, and one upsert per row. */

import PQueue from 'p-queue'
import pg from 'pg'
import { isObject, parseJson } from '../../src/core/json.ts'
import type { Instant } from '../../src/core/time.ts'
import { statementsOf } from '../../src/load/merge/statements.ts'
import { sendCopy } from '../../src/load/merge/write-batch.ts'
import { openLines } from '../../src/normalize/lines.ts'
import { readRecord } from '../../src/normalize/read-record.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { openSpool } from './spool.ts'
import type { BenchWarehouse } from './warehouse.ts'

const BATCH = 2_000

/** The lines of batches, made ahead of time and kept in a file: those of many records exceed the memory. */
export interface ReadyLines extends Disposable {
  /** For each batch, the input of each statement, in order. */
  batches(): Iterable<readonly (readonly [statement: string, lines: Buffer])[]>
}

/** The same lines that the pipeline would send. */
export function readyLines(stream: Stream, pages: Iterable<Buffer>): ReadyLines {
  const { straight } = statementsOf(stream).copy
  const statements = [straight.records, straight.root, ...straight.children]
  const spool = openSpool()
  let lines = openLines(stream)
  const keep = () => {
    const { records, root, children } = lines.build()
    for (const piece of [records, root, ...children]) spool.add(piece)
    lines = openLines(stream)
  }
  for (const page of pages) {
    for (const record of recordsOf(page)) {
      const read = readRecord(record, { ...READING, stream })
      if (read.kind === 'record') lines.add(read.envelope)
      if (lines.count === BATCH) keep()
    }
  }
  if (lines.count > 0) keep()
  return {
    *batches() {
      for (let at = 0; at < spool.count; at += statements.length)
        yield statements.map((statement, nth) => [statement, spool.at(at + nth)] as const)
    },
    [Symbol.dispose]: () => spool[Symbol.dispose](),
  }
}

const READING = {
  teamId: 1,
  origin: 'run:1 page:1',
  observedAt: '2026-01-01T00:00:00.000000Z' as Instant,
  invalidUtf8: false,
}

/** COPY of ready-made lines into the same tables and indexes, one connection, one transaction per batch. */
export async function copyFloor({ session }: BenchWarehouse, lines: ReadyLines): Promise<void> {
  for (const batch of lines.batches()) {
    await session.client.query('begin')
    for (const [statement, piece] of batch) await sendCopy(session.client, statement, piece)
    await session.client.query('commit')
  }
}

/** One upsert per row, five in flight, each its own transaction: how the closest public tool writes. */
export async function upsertFloor(
  { url }: BenchWarehouse,
  stream: Stream,
  pages: readonly Buffer[],
): Promise<number> {
  const pool = new pg.Pool({ connectionString: url, max: 5 })
  const queue = new PQueue({ concurrency: 5 })
  let rows = 0
  for (const record of pages.flatMap(recordsOf)) {
    if (!isObject(record)) continue
    const text = JSON.stringify(record)
    rows += 1
    void queue.add(() =>
      pool.query(
        `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
         values (1, $3, $1, now(), now(), '', 'peer', $2)
         on conflict (team_id, stream, id) do update set payload = excluded.payload, version = excluded.version`,
        [record.id, text, stream.name],
      ),
    )
  }
  await queue.onIdle()
  const { rows: counted } = await pool.query<{ count: number }>(
    `select count(*)::int from intake_raw.records where stream = $1 and origin = 'peer'`,
    [stream.name],
  )
  await pool.end()
  if (counted[0]?.count !== rows)
    throw new Error(`${counted[0]?.count} of ${rows} rows were written by the peer`)
  return rows
}

function recordsOf(page: Buffer): readonly unknown[] {
  const { value } = parseJson(page)
  return isObject(value) && Array.isArray(value.results) ? value.results : []
}
