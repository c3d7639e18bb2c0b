/**
 * Many records in one warehouse: patients, and responses of ten answers. Loads them, reads them again unchanged,
 * and verifies each row: time, memory and disk.
 *
 * Invariant: a figure counts only when every record is stored, none is written again, and none differs.
 */
import { type ChildResult, FEW, grown, inChild, loadAlone, spooled } from './memory.ts'
import type { Sample } from './pages.ts'
import { patientSample } from './patient-pages.ts'
import { responseSample } from './response-pages.ts'
import type { BenchRow } from './row.ts'
import { type BenchWarehouse, emptyTables } from './warehouse.ts'

export interface LongOptions {
  readonly patients: number
  readonly responses: number
}

export async function benchLong(warehouse: BenchWarehouse, sizes: LongOptions): Promise<readonly BenchRow[]> {
  const fewResponses = await loadAlone(warehouse, responseSample, FEW)
  const few = await loadAlone(warehouse, patientSample, FEW)
  const rows: BenchRow[] = []
  for (const size of [100_000, 1_000_000].filter((each) => each < sizes.patients))
    rows.push(...grown(patientSample, size, await loadAlone(warehouse, patientSample, size), few))
  await emptyTables(warehouse, patientSample.stream)
  rows.push(...(await addTo(warehouse, patientSample, sizes.patients, few)))
  rows.push(...(await addTo(warehouse, responseSample, sizes.responses, fewResponses)))
  return rows
}

/** Adds records to those that are stored, and compares their cost with that of few records in empty tables. */
async function addTo(
  warehouse: BenchWarehouse,
  sample: Sample,
  records: number,
  few: ChildResult,
): Promise<readonly BenchRow[]> {
  const { name } = sample.stream
  using pages = spooled(sample, records)
  const run = { records, pages }
  const before = await sizeOf(warehouse)
  const first = expected(await inChild('load', warehouse, sample, run), records, 0)
  const disk = ((await sizeOf(warehouse)) - before) / records
  const again = expected(await inChild('load', warehouse, sample, run), 0, records)
  const compared = expected(await inChild('verify', warehouse, sample, run), 0, records)
  const floor = { floorIs: 'first load', floor: records / first.seconds }
  const rate = ({ seconds, peakBytes }: ChildResult) => ({
    ...{ figure: records / seconds, unit: 'records/s', ...floor, ratio: first.seconds / seconds },
    ...{ peakBytes, notes: `${Math.round(seconds)} s` },
  })
  const sent = pages.bytes / records
  return [
    ...grown(sample, records, first, few),
    {
      ...{ what: `disk of ${records} ${name}`, figure: disk, unit: 'bytes/record' },
      ...{ floorIs: 'bytes of a page', floor: sent, ratio: disk / sent, aim: '–', met: true },
      ...{ peakBytes: null, notes: `${((disk * records) / 1e9).toFixed(1)} GB` },
    },
    {
      ...{ what: `re-run of ${records} ${name}, nothing changed`, ...rate(again) },
      ...{ aim: '≥ 4', met: first.seconds / again.seconds >= 4 },
    },
    {
      what: `verify of ${records} ${name}`,
      ...rate(compared),
      aim: '< 300 MB',
      met: compared.peakBytes < 300e6,
    },
  ]
}

async function sizeOf({ session }: BenchWarehouse): Promise<number> {
  const { rows } = await session.client.query<{ bytes: number }>(
    'select pg_database_size(current_database())::float8 as bytes',
  )
  return rows[0]!.bytes
}

function expected(result: ChildResult, changed: number, unchanged: number): ChildResult {
  if (result.changed === changed && result.unchanged === unchanged) return result
  throw new Error(
    `${result.changed} changed and ${result.unchanged} unchanged in place of ${changed} and ${unchanged}`,
  )
}
