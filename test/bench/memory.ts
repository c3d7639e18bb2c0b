/** Peak memory and cost a record, for many records beside few. Each size runs in a process of its own. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Stream } from '../../src/streams/stream.ts'
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
  const few = 10_000
  const small = await load(warehouse, stream, few)
  const large = await load(warehouse, stream, many)
  const cost = large.seconds / many / (small.seconds / few)
  const peak = large.peakBytes / MEBIBYTE
  const smallPeak = small.peakBytes / MEBIBYTE
  return [
    {
      what: `peak memory, ${many} ${stream.name}`,
      figure: peak,
      unit: 'MiB',
      floorIs: `${few} ${stream.name}`,
      floor: smallPeak,
      ratio: peak / smallPeak,
      aim: '< 300 MB',
      met: large.peakBytes < 300e6,
    },
    {
      what: `cost a record, ${many} ${stream.name}`,
      figure: (large.seconds / many) * 1e6,
      unit: 'µs',
      floorIs: `${few} ${stream.name}`,
      floor: (small.seconds / few) * 1e6,
      ratio: cost,
      aim: '≤ 1.3',
      met: cost <= 1.3,
      notes: 'making the pages is in both',
    },
  ]
}

async function load(warehouse: BenchWarehouse, stream: Stream, records: number): Promise<ChildResult> {
  await emptyTables(warehouse, stream)
  const child = fileURLToPath(new URL('memory-child.ts', import.meta.url))
  // The flags of the benchmark are those of the command line's first line.
  const args = [...process.execArgv, child, warehouse.url, stream.name, String(records)]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const result = JSON.parse(stdout) as ChildResult
  if (result.changed !== records) throw new Error(`${result.changed} of ${records} were loaded`)
  return result
}
