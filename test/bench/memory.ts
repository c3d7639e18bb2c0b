/** Peak memory and cost per record, for many records compared with few. Each size runs in a process of its own. */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { programOf } from './child.ts'
import { pagesOf, type Sample } from './pages.ts'
import type { BenchRow } from './row.ts'
import { openSpool, type Spool } from './spool.ts'
import { type BenchWarehouse, emptyTables } from './warehouse.ts'

export interface ChildResult {
  readonly seconds: number
  readonly peakBytes: number
  /** Records that were written, or that differ. */
  readonly changed: number
  /** Records that were not written, or that were compared. */
  readonly unchanged: number
}

const MEBIBYTE = 1024 * 1024

/** The base size. */
export const FEW = 10_000

export async function benchMemory(
  warehouse: BenchWarehouse,
  sample: Sample,
  sizes: readonly number[],
): Promise<readonly BenchRow[]> {
  const few = await loadAlone(warehouse, sample, FEW)
  const rows: BenchRow[] = []
  for (const size of sizes) rows.push(...grown(sample, size, await loadAlone(warehouse, sample, size), few))
  return rows
}

/** What `size` records cost, compared with few of them. */
export function grown(
  { stream: { name } }: Sample,
  size: number,
  large: ChildResult,
  few: ChildResult,
): readonly BenchRow[] {
  const cost = large.seconds / size / (few.seconds / FEW)
  const { peakBytes } = large
  return [
    {
      what: `peak memory, ${size} ${name}`,
      figure: peakBytes / MEBIBYTE,
      unit: 'MiB',
      floorIs: `${FEW} ${name}`,
      floor: few.peakBytes / MEBIBYTE,
      ratio: peakBytes / few.peakBytes,
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
      floor: (few.seconds / FEW) * 1e6,
      ratio: cost,
      aim: '≤ 1.3',
      met: cost <= 1.3,
      peakBytes,
      plotted: { panel: 'cost per record, µs', line: name, records: size, few: FEW },
    },
  ]
}

/** Loads records into empty tables. */
export async function loadAlone(
  warehouse: BenchWarehouse,
  sample: Sample,
  records: number,
): Promise<ChildResult> {
  await emptyTables(warehouse, sample.stream)
  using pages = spooled(sample, records)
  const result = await inChild('load', warehouse, sample, { records, pages })
  if (result.changed !== records) throw new Error(`${result.changed} of ${records} were loaded`)
  return result
}

/** The pages of a list of `records`, made before the clock starts. */
export function spooled(sample: Sample, records: number): Spool {
  const pages = openSpool()
  for (let page = 0; page < pagesOf(sample, records); page++) pages.add(sample.pageAt(page, records))
  return pages
}

/** Loads or verifies in a process of its own. */
export async function inChild(
  work: 'load' | 'verify',
  { url }: BenchWarehouse,
  { stream }: Sample,
  { records, pages }: { readonly records: number; readonly pages: Spool },
): Promise<ChildResult> {
  // The options of the benchmark come from the command line.
  const args = [...process.execArgv, programOf('memory-child'), work, url, stream.name, String(records)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit', pages.file] })
  const said = await text(child.stdout!)
  if (said === '') throw new Error(`no result of ${work} with ${records} ${stream.name}`)
  return JSON.parse(said) as ChildResult
}
