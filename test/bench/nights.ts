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

/**
 * The nights of a round: one record in so many changes. The fewer records change, the smaller is the difference between
 * the night and an unchanged one, and the more nights it takes to separate it from noise.
 */
const NIGHTS = [1, 10, 10, 100, 100, 100, 100] as const
const ROUNDS = 3
const AIM = 3

interface Round {
  /** Seconds per record of the first load. */
  readonly first: number
  readonly nights: readonly Night[]
}

/** Seconds per record of a night, and of an unchanged night before it, in the same tables. */
interface Night {
  readonly every: number
  readonly changed: number
  readonly unchanged: number
}

export async function benchNights(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  await measureRound(warehouse, Math.min(records, 10_000))
  const rounds: Round[] = []
  while (rounds.length < ROUNDS) rounds.push(await measureRound(warehouse, records))
  const first = median(rounds.map((round) => round.first))
  const changed = [...new Set(NIGHTS)].flatMap((every): BenchRow[] => {
    const share = every === 1 ? 'everything' : `${100 / every} %`
    const nights = rounds.flatMap((round) => round.nights).filter((night) => night.every === every)
    const cost = median(nights.map((night) => night.changed * every - night.unchanged * (every - 1)))
    const ratio = cost / first
    const costRow = {
      what: `a night in which ${share} of ${records} patients changed: cost per changed record`,
      figure: cost * 1e6,
      unit: 'µs',
      floorIs: 'first load, cost per record',
      floor: first * 1e6,
      ratio,
      aim: `≤ ${AIM}`,
      met: ratio <= AIM,
    }
    return [
      costRow,
      wholeRow(`the night in which ${share} changed, as a whole`, nights, first, WHOLE_AIMS[every]),
    ]
  })
  const unchanged = rounds.flatMap(({ nights }) =>
    nights.map((night) => ({ ...night, changed: night.unchanged })),
  )
  return [wholeRow('a night in which nothing changed', unchanged, first, 4), ...changed]
}

/** Times the speed of a first load; of the others, what a changed record may cost allows for it. */
const WHOLE_AIMS: { readonly [every: number]: number } = { 1: 0.3, 10: 1, 100: 3 }

function wholeRow(what: string, nights: readonly Night[], first: number, aim = 1): BenchRow {
  const whole = median(nights.map((night) => night.changed))
  const ratio = first / whole
  return {
    ...{ what, figure: 1 / whole, unit: 'records/s', floorIs: 'first load', floor: 1 / first, ratio },
    ...{ aim: `≥ ${aim}`, met: ratio >= aim },
  }
}

async function measureRound(warehouse: BenchWarehouse, records: number): Promise<Round> {
  await emptyTables(warehouse, patients)
  const first = await load(warehouse, records, 0)
  const nights: Night[] = []
  for (const [at, every] of NIGHTS.entries()) {
    // Between two nights autovacuum comes by.
    await warehouse.session.client.query('vacuum analyze')
    const unchanged = await load(warehouse, records, at)
    expectCount(unchanged.changed, 0)
    const changed = await load(warehouse, records, at + 1)
    expectCount(changed.changed, Math.ceil(records / every))
    nights.push({ every, changed: changed.seconds / records, unchanged: unchanged.seconds / records })
  }
  await emptyTables(warehouse, patients)
  return { first: first.seconds / records, nights }
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
