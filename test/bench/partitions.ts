/**
 * A first load and a re-run into tables that are partitioned by hash, compared with the tables as they are.
 *
 * Invariant: a figure counts only when both loads have all rows. Only loading is measured: the views read the tables as
 * they were, and children are not replaced (docs/scaling.md says why partitions are not offered).
 */
import { benchLoad } from './load.ts'
import type { Sample } from './pages.ts'
import type { BenchRow } from './row.ts'
import { type BenchWarehouse, openBenchWarehouse } from './warehouse.ts'

const PARTITIONS = 16

export async function benchPartitions(sample: Sample, records: number): Promise<readonly BenchRow[]> {
  const measure = async (prepare: (warehouse: BenchWarehouse) => Promise<void>) => {
    await using warehouse = await openBenchWarehouse()
    await prepare(warehouse)
    return await benchLoad(warehouse, sample, records)
  }
  const plain = await measure(async () => {})
  const parted = await measure((warehouse) => partition(warehouse, sample))
  return [0, 2].map((at) => {
    const [figure, floor] = [parted[at]!.figure, plain[at]!.figure]
    return {
      ...{ what: `${parted[at]!.what}, ${PARTITIONS} hash partitions`, figure, unit: 'records/s' },
      ...{
        floorIs: 'without partitions',
        floor,
        ratio: figure / floor,
        aim: 'none',
        met: true,
        peakBytes: null,
      },
    }
  })
}

/** Puts a partitioned table, with the same keys, indexes and triggers, in the place of each table of the stream. */
async function partition({ session }: BenchWarehouse, { stream }: Sample): Promise<void> {
  const tables = [
    { schema: 'intake_raw', name: 'records', key: 'team_id, id' },
    { schema: 'intake', name: stream.table, key: 'team_id, id' },
    ...stream.children.map(({ table, parent }) => ({
      schema: 'intake',
      name: table,
      key: `team_id, ${parent}`,
    })),
  ]
  for (const { schema, name, key } of tables) {
    const { rows } = await session.client.query<{ definition: string }>(
      `select pg_get_triggerdef(oid) as definition from pg_trigger where tgrelid = $1::regclass and not tgisinternal`,
      [`${schema}.${name}`],
    )
    const parts = Array.from(
      { length: PARTITIONS },
      (_, at) => `create table ${schema}.${name}_${at} partition of ${schema}.${name}
        for values with (modulus ${PARTITIONS}, remainder ${at});`,
    )
    await session.client.query(`
      alter table ${schema}.${name} rename to ${name}_plain;
      create table ${schema}.${name} (like ${schema}.${name}_plain including all) partition by hash (${key});
      ${parts.join('\n')}
      ${rows.map(({ definition }) => `${definition};`).join('\n')}`)
  }
}
