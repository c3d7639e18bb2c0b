/**
 * Nights in which everything, a tenth and a hundredth of the patients changed, spread evenly.
 *
 * Invariant: a figure counts only when exactly the changed records were written. Statistics are those of the night
 * before, as they are in life. What a changed record costs is the night's time above that of reading as many unchanged.
 */
import { patients } from '../../src/streams/patients.ts'
import { pagesOf, sampleOf } from './pages.ts'
import { patient } from './patient-pages.ts'
import { runRoad } from './road.ts'
import { type BenchRow, median, timed } from './row.ts'
import { openSpool } from './spool.ts'
import { type BenchWarehouse, emptyTables } from './warehouse.ts'

/** One record in so many changes. */
const NIGHTS = [1, 10, 100] as const
const ROUNDS = 3
const AIM = 3

interface Round {
  /** Seconds a record. */
  readonly first: number
  readonly unchanged: number
  /** Of each kind of night: seconds above those of an unchanged one, a changed record. */
  readonly changed: readonly number[]
  readonly nights: readonly number[]
}

export async function benchNights(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  await measureRound(warehouse, Math.min(records, 10_000))
  const rounds: Round[] = []
  while (rounds.length < ROUNDS) rounds.push(await measureRound(warehouse, records))
  const of = (value: (round: Round) => number) => median(rounds.map(value))
  const first = of((round) => round.first)
  return NIGHTS.flatMap((every, at): BenchRow[] => {
    const share = every === 1 ? 'everything' : `${100 / every} %`
    const cost = of((round) => round.changed[at]!)
    const ratio = of((round) => round.changed[at]! / round.first)
    const whole = {
      what: `a night in which ${share} of ${records} patients changed: cost per changed record`,
      figure: cost * 1e6,
      unit: 'µs',
      floorIs: 'first load, cost per record',
      floor: first * 1e6,
      ratio,
      aim: `≤ ${AIM}`,
      met: ratio <= AIM,
    }
    if (every !== 100) return [whole]
    const speed = of((round) => round.first / round.nights[at]!)
    const night = {
      what: `the night in which ${share} changed, as a whole`,
      figure: 1 / of((round) => round.nights[at]!),
      unit: 'records/s',
      floorIs: 'first load',
      floor: 1 / first,
      ratio: speed,
      aim: '≥ 3',
      met: speed >= 3,
    }
    return [whole, night]
  })
}

async function measureRound(warehouse: BenchWarehouse, records: number): Promise<Round> {
  await emptyTables(warehouse, patients)
  const first = await load(warehouse, records, 0)
  // Between two nights autovacuum comes by.
  const rest = () => warehouse.session.client.query('vacuum analyze')
  await rest()
  const unchanged = await load(warehouse, records, 0)
  const nights: number[] = []
  for (const [at, every] of NIGHTS.entries()) {
    const night = await load(warehouse, records, at + 1)
    expectCount(night.changed, Math.ceil(records / every))
    nights.push(night.seconds / records)
    await rest()
  }
  await emptyTables(warehouse, patients)
  const idle = unchanged.seconds / records
  return {
    first: first.seconds / records,
    unchanged: idle,
    nights,
    changed: nights.map((seconds, at) => seconds * NIGHTS[at]! - idle * (NIGHTS[at]! - 1)),
  }
}

async function load(
  warehouse: BenchWarehouse,
  records: number,
  night: number,
): Promise<{ readonly seconds: number; readonly changed: number }> {
  const sample = sampleOf(patients, 500, (index) => patientAfter(index, night))
  using pages = openSpool()
  for (let page = 0; page < pagesOf(sample, records); page++) pages.add(sample.pageAt(page, records))
  const { seconds, result } = await timed(() => runRoad(warehouse.url, sample, records, pages.at))
  return { seconds, changed: result.changed }
}

/** A patient after so many nights: as the last of them left it that changed it. */
function patientAfter(index: number, nights: number): unknown {
  for (let night = nights; night > 0; night--) {
    if (index % NIGHTS[night - 1]! !== 0) continue
    const updated_at = `2026-11-0${night}T00:00:00.${String(index % 1_000_000).padStart(6, '0')}Z`
    const patient_tags = [{ name: `Night ${night}`, color: '#0000ff' }]
    return { ...patient(index), address: `${index} Night ${night}`, patient_tags, updated_at }
  }
  return patient(index)
}

function expectCount(found: number, expected: number): void {
  if (found !== expected) throw new Error(`${found} records changed in place of ${expected}`)
}
