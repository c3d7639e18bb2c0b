/**
 * Cells of a CSV export loaded into the long table, compared with COPY of the same cells.
 *
 * The path is the real one from the bytes of the file on; a stub returns these. The floor does not read CSV, hash, keep
 * the file or match questions.
 */

import { Readable } from 'node:stream'
import pino from 'pino'
import type { Client } from '../../src/api/client.ts'
import type { Page, PageFacts, Scan, ScanOutcome } from '../../src/api/paging/pages.ts'
import { pathsWith } from '../../src/api/paths.ts'
import { openServiceClock } from '../../src/api/service-clock.ts'
import { systemClock } from '../../src/core/clock.ts'
import { noFailedFetches } from '../../src/extract/conflicts/fetch-by-id.ts'
import { readExports } from '../../src/extract/reading/read-exports.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { emptyTally } from '../../src/extract/source.ts'
import { loadBatch } from '../../src/load/merge/load.ts'
import { openLoaders } from '../../src/load/merge/loaders.ts'
import { sendCopy } from '../../src/load/merge/write-batch.ts'
import { firstStep } from '../../src/load/run-progress.ts'
import { takeSlice } from '../../src/load/slice.ts'
import { formExports } from '../../src/streams/exports.ts'
import { openSession, PLANNER } from '../../src/warehouse/connect.ts'
import { type BenchRow, median, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const ROUNDS = 3
const QUESTIONS = 40
const PIECE = 64 * 1024
/** Rows whose lines are made, and sent, at once. */
const PORTION = 1_000
const ID = 'a3f0c1d2-0000-4000-8000-000000000001'

const HEADER = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived'

/** The file of an export of `rows` clients, piece by piece; a quarter of the cells are empty. */
export function* exportPieces(rows: number): Generator<Buffer> {
  const titles = Array.from({ length: QUESTIONS }, (_, at) => `"Question ${at + 1}, as it is asked?"`)
  let text = `${HEADER},${titles.join()}\r\n`
  for (let row = 0; row < rows; row++) {
    const cells = Array.from({ length: QUESTIONS }, (_, at) => cellAt(row, at))
    const written = cells.map((cell) => (/[",]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell))
    text += `${leading(row).join()},${written.join()}\r\n`
    if (text.length < PIECE) continue
    yield Buffer.from(text)
    text = ''
  }
  yield Buffer.from(text)
}

function leading(row: number): readonly string[] {
  const client = `${String(row).padStart(8, '0')}-0000-4000-8000-000000000000`
  return [
    client,
    'Ann',
    'Lee',
    `ann${row}@example.com`,
    '2026-01-02 10:00:00.123456',
    '2026-01-03 11:00:00',
    'False',
  ]
}

function cellAt(row: number, at: number): string {
  if ((row + at) % 4 === 0) return ''
  if (at % 7 === 0) return `Several times, and "often" in ${row % 9} weeks`
  return at % 5 === 0 ? `täglich ${row % 30}` : `Answer ${(row * at) % 997}`
}

/** Loads the file as a backfill of the stream does. Returns the number of changed exports. */
export async function runExportRoad(url: string, pieces: () => Iterable<Buffer>): Promise<number> {
  await using session = await openSession({ url, purpose: 'bench', planner: PLANNER.compare })
  await using loaders = openLoaders({ url, clock: systemClock })
  const taken = await takeSlice(session.db, { teamId: 1, stream: 'exports', slice: '' }, '1')
  const source = {
    team: 'north',
    client: fileClient(pieces),
    serviceClock: openServiceClock(),
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    signal: new AbortController().signal,
    loaders,
    url,
    timezone: 'UTC',
    stream: formExports,
    taken,
    load: loadBatch,
    meter: { requests: 0, throttled: 0 },
    tally: emptyTally(),
    step: firstStep(),
    failedFetches: noFailedFetches(),
    onProgress: () => {},
  }
  await readExports(source, session, {
    allowMassDelete: false,
    dry: false,
    migrated: true,
    window: EVERYTHING,
  })
  return source.tally.changed
}

function fileClient(pieces: () => Iterable<Buffer>): Client {
  const outcome: ScanOutcome = { complete: true, stable: true, count: 1, pages: 1, records: 1 }
  const times = { startedAt: systemClock.now(), receivedAt: systemClock.now(), serviceDate: null }
  async function* scan(): AsyncGenerator<Page, ScanOutcome, undefined> {
    const facts: PageFacts = {
      ...{
        kind: 'page',
        number: 1,
        records: 1,
        count: 1,
        next: null,
        endKnown: true,
        fingerprint: '1',
        fits: true,
      },
    }
    yield {
      number: 1,
      records: [{ id: ID, name: 'E' }],
      count: 1,
      ...times,
      invalidUtf8: false,
      last: true,
      facts,
    }
    return outcome
  }
  const client = {
    apiVersion: 'v2.1',
    concurrency: 4,
    bodyKeys: {},
    paths: pathsWith(),
    pathOf: ({ path }: { readonly path: string }) => path,
    pages: () => Object.assign(scan(), { outcome }) as Scan,
    stream: async () => ({
      ...times,
      status: 200,
      headers: { 'content-type': 'text/plain' },
      endKnown: true,
      stream: Readable.from(pieces(), { objectMode: false }),
    }),
  }
  return client as unknown as Client
}

const CELLS = 'copy intake.export_cells (team_id, export_id, row_number, position, value) from stdin'

function* cellLines(rows: number): Generator<Buffer> {
  for (let from = 0; from < rows; from += PORTION) {
    let lines = ''
    for (let row = from; row < Math.min(rows, from + PORTION); row++) {
      for (let at = 0; at < QUESTIONS; at++) {
        const cell = cellAt(row, at)
        if (cell !== '') lines += `1\t${ID}\t${row + 1}\t${at + 8}\t${cell}\n`
      }
    }
    yield Buffer.from(lines)
  }
}

export async function benchExports(warehouse: BenchWarehouse, rows: number): Promise<readonly BenchRow[]> {
  const { url, session } = warehouse
  const pieces = [...exportPieces(rows)]
  const lines = [...cellLines(rows)]
  const rounds: { readonly floor: number; readonly road: number; readonly again: number }[] = []
  let cells = 0
  // The first round warms caches and compilers and is not counted.
  for (let round = 0; round <= ROUNDS; round++) {
    await emptyExports(warehouse)
    const floor = await timed(async () => {
      await session.client.query('begin')
      for (const portion of lines) await sendCopy(session.client, CELLS, portion)
      await session.client.query('commit')
    })
    cells = await countCells(warehouse)
    await emptyExports(warehouse)
    const road = await timed(() => runExportRoad(url, () => pieces))
    if ((await countCells(warehouse)) !== cells) throw new Error('the road loads other cells than the floor')
    const again = await timed(() => runExportRoad(url, () => pieces))
    if (again.result !== 0) throw new Error('an unchanged file was loaded again')
    if (round > 0) rounds.push({ floor: floor.seconds, road: road.seconds, again: again.seconds })
  }
  await emptyExports(warehouse)
  const ratio = median(rounds.map((round) => round.floor / round.road))
  const nightly = median(rounds.map((round) => round.road / round.again))
  return [
    {
      what: `CSV export of ${cells} cells`,
      figure: median(rounds.map((round) => cells / round.road)),
      unit: 'cells/s',
      floorIs: 'COPY of the same cells, ready-made lines',
      floor: median(rounds.map((round) => cells / round.floor)),
      ratio,
      aim: '≥ 0.5',
      met: ratio >= 0.5,
    },
    {
      what: 'the same export unchanged',
      figure: median(rounds.map((round) => cells / round.again)),
      unit: 'cells/s',
      floorIs: 'its first load',
      floor: median(rounds.map((round) => cells / round.road)),
      ratio: nightly,
      aim: '≥ 4',
      met: nightly >= 4,
      notes: 'no row version written',
    },
  ]
}

async function emptyExports({ session }: BenchWarehouse): Promise<void> {
  await session.client.query(
    `truncate intake.exports, intake.export_columns, intake.export_rows, intake.export_cells,
       intake_raw.export_files, intake_raw.export_chunks, intake_raw.records, intake_ops.checkpoints`,
  )
  await session.client.query('checkpoint')
}

async function countCells({ session }: BenchWarehouse): Promise<number> {
  const { rows } = await session.client.query<{ count: string }>('select count(*) from intake.export_cells')
  return Number(rows[0]?.count)
}
