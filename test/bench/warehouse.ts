/** An embedded Postgres for the benchmark, with full durability, and the tables into which a stream is loaded. */

import { migrate } from '../../src/analytics/migrate.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { whenInterrupted } from '../support/interruption.ts'

/** Tables that loading a stream writes. */
function tablesOf({ table, children }: Stream): readonly string[] {
  return [
    'intake_raw.records',
    ...[table, ...children.map((child) => child.table)].map((name) => `intake.${name}`),
  ]
}

export interface BenchWarehouse extends AsyncDisposable {
  readonly url: string
  readonly session: Session
}

export async function openBenchWarehouse(): Promise<BenchWarehouse> {
  const folder = makeFolder('bench-')
  const server = await openEmbedded({ dataDir: folder })
  const stop = async () => {
    forget()
    await server.stop()
    removeFolder(folder)
  }
  const forget = whenInterrupted(stop)
  await migrate(server.url)
  const session = await openSession({ url: server.url, purpose: 'bench' })
  return {
    url: server.url,
    session,
    async [Symbol.asyncDispose]() {
      await session.close()
      await stop()
    },
  }
}

/** Empties the tables, and lets the server finish its pending writes. */
export async function emptyTables({ session }: BenchWarehouse, stream: Stream): Promise<void> {
  await session.client.query(
    `truncate ${tablesOf(stream).join(', ')}, intake_raw.record_history, intake_raw.known_pages, intake_ops.checkpoints,
     intake_ops.scans, intake_ops.scan_pages`,
  )
  await session.client.query('checkpoint')
}

/** Rows of each table, `intake_raw.records` first. */
export async function countRows({ session }: BenchWarehouse, stream: Stream): Promise<readonly number[]> {
  const counts: number[] = []
  for (const table of tablesOf(stream)) {
    const { rows } = await session.client.query<{ count: string }>(`select count(*) from ${table}`)
    counts.push(Number(rows[0]?.count))
  }
  return counts
}

/** Changes with every row version that is written to the tables, and with nothing else. */
export async function rowVersions({ session }: BenchWarehouse, stream: Stream): Promise<string> {
  const marks: string[] = []
  for (const table of tablesOf(stream)) {
    const query = `select count(*) || ':' || coalesce(sum(hashtext(xmin::text || ctid::text)::bigint), 0) as mark from ${table}`
    const { rows } = await session.client.query<{ mark: string }>(query)
    marks.push(rows[0]?.mark ?? '')
  }
  return marks.join(' ')
}
