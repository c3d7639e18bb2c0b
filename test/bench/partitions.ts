/**
 * A first load, a re-run, nights with changes and drained events in a warehouse whose large tables are partitioned by hash
 * (sql/partitions.sql), compared with a plain one.
 *
 * Invariant: a figure counts only when both warehouses have all rows.
 */
import { migrate } from '../../src/analytics/migrate.ts'
import { partition } from '../support/partition.ts'
import { benchDrain } from './drain.ts'
import { benchLoad } from './load.ts'
import { benchNights } from './nights.ts'
import type { Sample } from './pages.ts'
import type { BenchRow } from './row.ts'
import { type BenchWarehouse, openBenchWarehouse } from './warehouse.ts'

export async function benchPartitions(
  sample: Sample,
  sizes: { readonly records: number; readonly events: number },
): Promise<readonly BenchRow[]> {
  const measure = async (prepare: (warehouse: BenchWarehouse) => Promise<unknown>) => {
    await using warehouse = await openBenchWarehouse()
    await prepare(warehouse)
    const rows = [
      ...(await benchLoad(warehouse, sample, sizes.records)),
      ...(await benchNights(warehouse, sizes.records)),
      ...(await benchDrain(warehouse, sizes.events)),
    ]
    return rows.filter(({ unit, what }) => /^(?:records|events)\/s$/.test(unit) && !/snapshot/.test(what))
  }
  const plain = await measure(async () => {})
  const parted = await measure(async ({ url, session }) => {
    await partition(session.client)
    await migrate(url)
  })
  return parted.map(({ what, figure, unit }, at) => {
    const floor = plain[at]!.figure
    const ratio = figure / floor
    return {
      ...{ what: `${what}, 16 hash partitions`, figure, unit, floorIs: 'without partitions', floor, ratio },
      ...{ aim: 'none', met: true, peakBytes: null },
    }
  })
}
