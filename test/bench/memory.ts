/** Peak memory and cost per record, for many records compared with few. Each size runs in a process of its own. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Stream } from '../../src/streams/stream.ts'
import { programOf } from './child.ts'
import type { BenchRow } from './row.ts'
import { type BenchWarehouse, emptyTables } from './warehouse.ts'

interface ChildResult {
  readonly seconds: number
  readonly peakBytes: number
  readonly changed: number
}

const MEBIBYTE = 1024 * 1024

export async function benchMemory(
  warehouse: BenchWarehouse,
  stream: Stream,
  many: number,
): Promise<readonly BenchRow[]> {
  const small = await load(warehouse, stream, FEW)
  const rows: BenchRow[] = []
  for (const size of [...BETWEEN.filter((each) => each < many), many])
    rows.push(...rowsOf(stream.name, size, await load(warehouse, stream, size), small))
  return rows
}

/** The base size; then ten times as many, and so on. */
const FEW = 10_000
const BETWEEN = [100_000, 1_000_000]

function rowsOf(name: string, size: number, large: ChildResult, small: ChildResult): readonly BenchRow[] {
  const cost = large.seconds / size / (small.seconds / FEW)
  const { peakBytes } = large
  return [
    {
      what: `peak memory, ${size} ${name}`,
      figure: peakBytes / MEBIBYTE,
      unit: 'MiB',
      floorIs: `${FEW} ${name}`,
      floor: small.peakBytes / MEBIBYTE,
      ratio: peakBytes / small.peakBytes,
      aim: '< 300 MB',
      met: peakBytes < 300e6,
      peakBytes,
      plotted: { panel: 'peak memory, MiB', line: name, records: size, few: FEW },
    },
    {
      what: `cost a record, ${size} ${name}`,
      figure: (large.seconds / size) * 1e6,
      unit: 'µs',
      floorIs: `${FEW} ${name}`,
      floor: (small.seconds / FEW) * 1e6,
      ratio: cost,
      aim: '≤ 1.3',
      met: cost <= 1.3,
      peakBytes,
      notes: 'making the pages is in both',
      plotted: { panel: 'cost per record, µs', line: name, records: size, few: FEW },
    },
  ]
}

async function load(warehouse: BenchWarehouse, stream: Stream, records: number): Promise<ChildResult> {
  await emptyTables(warehouse, stream)
  const child = programOf('memory-child')
  // The options of the benchmark come from the command line.
  const args = [...process.execArgv, child, warehouse.url, stream.name, String(records)]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const result = JSON.parse(stdout) as ChildResult
  if (result.changed !== records) throw new Error(`${result.changed} of ${records} were loaded`)
  return result
}
