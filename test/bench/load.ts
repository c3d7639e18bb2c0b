/** Rows of the table of speed: first load, rows compared with a peer, and the nightly re-run. */
import { copyFloor, readyLines, upsertFloor } from './floors.ts'
import { pagesOf, type Sample } from './pages.ts'
import { runRoad } from './road.ts'
import { type BenchRow, median, timed } from './row.ts'
import { openSpool } from './spool.ts'
import { type BenchWarehouse, countRows, emptyTables, rowVersions } from './warehouse.ts'

const ROUNDS = 3

interface Round {
  readonly floor: number
  readonly road: number
  readonly again: number
  readonly rows: number
}

export async function benchLoad(
  warehouse: BenchWarehouse,
  sample: Sample,
  records: number,
): Promise<readonly BenchRow[]> {
  const { stream } = sample
  // The first round warms caches and compilers and is not counted.
  await benchRounds(warehouse, sample, Math.min(records, WARM_RECORDS), 1)
  const rounds = await benchRounds(warehouse, sample, records, ROUNDS)
  const some = Array.from({ length: pagesOf(sample, PEER_RECORDS) }, (_, page) =>
    sample.pageAt(page, PEER_RECORDS),
  )
  const peer = await timed(() => upsertFloor(warehouse, stream, some))
  await emptyTables(warehouse, stream)
  return rowsOf(stream.name, records, rounds, peer.result / peer.seconds)
}

const WARM_RECORDS = 20_000
const PEER_RECORDS = 4_000

async function benchRounds(
  warehouse: BenchWarehouse,
  sample: Sample,
  records: number,
  count: number,
): Promise<readonly Round[]> {
  const { stream } = sample
  using pages = openSpool()
  for (let page = 0; page < pagesOf(sample, records); page++) pages.add(sample.pageAt(page, records))
  using lines = readyLines(stream, pages.all())
  const load = () => runRoad(warehouse.url, sample, records, pages.at)
  const rounds: Round[] = []
  while (rounds.length < count) {
    await emptyTables(warehouse, stream)
    const floor = await timed(() => copyFloor(warehouse, lines))
    const expected = await countRows(warehouse, stream)
    await emptyTables(warehouse, stream)
    const road = await timed(load)
    expectSame('rows of the first load', await countRows(warehouse, stream), expected)
    const before = await rowVersions(warehouse, stream)
    const again = await timed(load)
    expectSame('row versions after a re-run', await rowVersions(warehouse, stream), before)
    expectSame('records of the re-run', again.result.unchanged, records)
    const rows = expected.reduce((sum, each) => sum + each, 0)
    rounds.push({ floor: floor.seconds, road: road.seconds, again: again.seconds, rows })
  }
  await emptyTables(warehouse, stream)
  return rounds
}

function rowsOf(
  name: string,
  records: number,
  rounds: readonly Round[],
  peerRate: number,
): readonly BenchRow[] {
  const of = (value: (round: Round) => number) => median(rounds.map(value))
  const first = of((round) => round.floor / round.road)
  const nightly = of((round) => round.road / round.again)
  const rowRate = of((round) => round.rows / round.road)
  return [
    {
      what: `first load of ${records} ${name}`,
      figure: of((round) => records / round.road),
      unit: 'records/s',
      floorIs: 'COPY of ready-made lines, one connection',
      floor: of((round) => records / round.floor),
      ratio: first,
      aim: '≥ 0.8',
      met: first >= 0.8,
    },
    {
      what: `rows of ${name}`,
      figure: rowRate,
      unit: 'rows/s',
      floorIs: 'one upsert a row, five in flight',
      floor: peerRate,
      ratio: rowRate / peerRate,
      aim: '≥ 20',
      met: rowRate / peerRate >= 20,
    },
    {
      what: `nightly re-run of ${name}, nothing changed`,
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

/** A figure whose rows do not add up does not count. */
function expectSame(what: string, found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected))
    throw new Error(`${what}: ${found} in place of ${expected}`)
}
