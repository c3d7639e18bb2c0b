/**
 * Loading after an erasure, compared with loading before: from then on each record is compared with what was erased.
 *
 * Invariant: a figure counts only when every record was loaded, but for the erased patient. Rounds alternate.
 */
import { systemClock } from '../../src/core/clock.ts'
import { erase } from '../../src/operate/erase/erase.ts'
import { patients } from '../../src/streams/patients.ts'
import { patient, patientSample } from './patient-pages.ts'
import { runRoad } from './road.ts'
import { type BenchRow, median, timed } from './row.ts'
import { type BenchWarehouse, emptyTables } from './warehouse.ts'

const ROUNDS = 5
const AIM = 0.8

export async function benchErasure(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  const without: number[] = []
  const after: number[] = []
  // The first load compiles the code.
  await loadAll(warehouse, Math.min(records, 10_000), 0)
  for (let round = 0; round < ROUNDS; round++) {
    await warehouse.session.client.query('truncate intake_ops.erasures')
    without.push(await loadAll(warehouse, records, 0))
    const { id } = patient(round) as { readonly id: string }
    await erase({
      ...{ url: warehouse.url, patient: { teamId: 1, id }, forget: false },
      clock: systemClock,
    })
    after.push(await loadAll(warehouse, records, 1))
  }
  await emptyTables(warehouse, patients)
  const ratio = median(without.map((seconds, round) => seconds / after[round]!))
  return [
    {
      what: `first load of ${records} patients after an erasure`,
      figure: records / median(after),
      unit: 'records/s',
      floorIs: 'the same without',
      floor: records / median(without),
      ratio,
      aim: `≥ ${AIM}`,
      met: ratio >= AIM,
    },
  ]
}

async function loadAll(warehouse: BenchWarehouse, records: number, erased: number): Promise<number> {
  await emptyTables(warehouse, patients)
  const { seconds } = await timed(() => runRoad(warehouse.url, patientSample, records))
  const { rows } = await warehouse.session.client.query<{ count: number }>(
    'select count(*)::int from intake.patients',
  )
  if (rows[0]!.count !== records - erased)
    throw new Error(`${rows[0]!.count} of ${records - erased} patients were loaded`)
  return seconds
}
