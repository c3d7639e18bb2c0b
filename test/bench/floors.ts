/** What the road is compared with: one connection's COPY of ready-made lines, and one upsert a row. */

import PQueue from 'p-queue'
import pg from 'pg'
import { isObject, parseJson } from '../../src/core/json.ts'
import type { Instant } from '../../src/core/time.ts'
import { sendCopy } from '../../src/load/copy.ts'
import { type BatchLines, openLines } from '../../src/load/lines.ts'
import { readRecord } from '../../src/load/read-record.ts'
import { statementsOf } from '../../src/load/statements.ts'
import { patients } from '../../src/streams/patients.ts'
import type { BenchWarehouse } from './warehouse.ts'

const BATCH = 2_000

/** The very lines that the road would send, made ahead of time. */
export function readyLines(pages: readonly Buffer[]): readonly BatchLines[] {
  const batches: BatchLines[] = []
  let lines = openLines(patients)
  for (const page of pages) {
    for (const record of recordsOf(page)) {
      const observedAt = '2026-01-01T00:00:00.000000Z' as Instant
      const origin = 'run:1 page:1'
      const read = readRecord(record, {
        teamId: 1,
        stream: 'patients',
        origin,
        observedAt,
        invalidUtf8: false,
      })
      if (read.kind === 'record') lines.add(read.envelope)
      if (lines.count < BATCH) continue
      batches.push(lines.build())
      lines = openLines(patients)
    }
  }
  if (lines.count > 0) batches.push(lines.build())
  return batches
}

/** COPY of ready-made lines into the same tables and indexes, one connection, a transaction a batch. */
export async function copyFloor({ session }: BenchWarehouse, batches: readonly BatchLines[]): Promise<void> {
  const { straight } = statementsOf(patients).copy
  for (const batch of batches) {
    await session.client.query('begin')
    await sendCopy(session.client, straight.records, batch.records)
    await sendCopy(session.client, straight.root, batch.root)
    for (let at = 0; at < batch.children.length; at++) {
      await sendCopy(session.client, straight.children[at]!, batch.children[at]!)
    }
    await session.client.query('commit')
  }
}

/** One upsert a row, five in flight, each its own transaction: how the closest public tool writes. */
export async function upsertFloor({ url }: BenchWarehouse, pages: readonly Buffer[]): Promise<number> {
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
         values (1, 'patients', $1, now(), now(), '', 'peer', $2)
         on conflict (team_id, stream, id) do update set payload = excluded.payload, version = excluded.version`,
        [record.id, text],
      ),
    )
  }
  await queue.onIdle()
  await pool.end()
  return rows
}

function recordsOf(page: Buffer): readonly unknown[] {
  const { value } = parseJson(page)
  return isObject(value) && Array.isArray(value.results) ? value.results : []
}
