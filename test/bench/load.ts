/** Rows 1 to 3 of the design's table of speed aims: first load, rows beside a peer, and the nightly re-run. */
import { copyFloor, readyLines, upsertFloor } from './floors.ts'
import { PAGE_SIZE, patientPage } from './pages.ts'
import { runRoad } from './road.ts'
import { type BenchRow, median, timed } from './row.ts'
import { type BenchWarehouse, countRows, emptyTables, rowVersions } from './warehouse.ts'

const ROUNDS = 3

interface Round {
  readonly floor: number
  readonly road: number
  readonly again: number
  readonly rows: number
}

export async function benchLoad(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  const pages = Array.from({ length: Math.ceil(records / PAGE_SIZE) }, (_, page) =>
    patientPage(page, records),
  )
  const lines = readyLines(pages)
  const rounds: Round[] = []
  // The first round warms caches and compilers and is not counted.
  for (let round = 0; round <= ROUNDS; round++) {
    await emptyTables(warehouse)
    const floor = await timed(() => copyFloor(warehouse, lines))
    const expected = await countRows(warehouse)
    await emptyTables(warehouse)
    const road = await timed(() => runRoad(warehouse.url, (page) => pages[page]!, records))
    expectSame('rows of the first load', await countRows(warehouse), expected)
    const before = await rowVersions(warehouse)
    const again = await timed(() => runRoad(warehouse.url, (page) => pages[page]!, records))
    expectSame('row versions after a re-run', await rowVersions(warehouse), before)
    expectSame('records of the re-run', again.result.unchanged, records)
    const rows = expected.reduce((sum, count) => sum + count, 0)
    if (round > 0) rounds.push({ floor: floor.seconds, road: road.seconds, again: again.seconds, rows })
  }
  await emptyTables(warehouse)
  const some = pages.slice(0, Math.ceil(4_000 / PAGE_SIZE))
  const peer = await timed(() => upsertFloor(warehouse, some))
  await emptyTables(warehouse)
  return rowsOf(records, rounds, peer.result / peer.seconds)
}

function rowsOf(records: number, rounds: readonly Round[], peerRate: number): readonly BenchRow[] {
  const of = (value: (round: Round) => number) => median(rounds.map(value))
  const first = of((round) => round.floor / round.road)
  const nightly = of((round) => round.road / round.again)
  const rowRate = of((round) => round.rows / round.road)
  return [
    {
      what: `first load of ${records} patients`,
      figure: of((round) => records / round.road),
      unit: 'records/s',
      floorIs: 'COPY of ready-made lines, one connection',
      floor: of((round) => records / round.floor),
      ratio: first,
      aim: '≥ 0.8',
      met: first >= 0.8,
    },
    {
      what: 'the same in rows',
      figure: rowRate,
      unit: 'rows/s',
      floorIs: 'one upsert a row, five in flight',
      floor: peerRate,
      ratio: rowRate / peerRate,
      aim: '≥ 20',
      met: rowRate / peerRate >= 20,
    },
    {
      what: 'nightly re-run, nothing changed',
      figure: of((round) => records / round.again),
      unit: 'records/s',
      floorIs: 'first load',
      floor: of((round) => records / round.road),
      ratio: nightly,
      aim: '≥ 4',
      met: nightly >= 4,
      notes: 'no row version written',
    },
  ]
}

/** A figure whose rows do not add up is none. */
function expectSame(what: string, found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected))
    throw new Error(`${what}: ${found} in place of ${expected}`)
}
