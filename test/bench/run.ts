/**
 * `npm run bench [-- --quick] [-- --json FILE] [-- --only load,drain]`: each figure with its floor, measured in the same
 * run, with the peak memory of the measured process and the CPU time that other machines took.
 *
 * The machines this runs on are shared and noisy, so a ratio counts more than a figure; a missed aim is printed as such
 * and is no failure, because a benchmark that fails on a busy machine would soon be ignored. A section whose rows do not
 * add up has no figure: it is reported, the others are measured, and the command exits with 1.
 */
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { table } from '../../src/commands/terminal/printable.ts'
import { patients } from '../../src/streams/patients.ts'
import { responses } from '../../src/streams/responses.ts'
import { fileToWrite, readWords, someOf } from '../support/words.ts'
import { benchAnalytics } from './analytics.ts'
import { benchConsole } from './console.ts'
import { benchDrain } from './drain.ts'
import { benchEmulator } from './emulator.ts'
import { benchExports } from './exports.ts'
import { benchIngest } from './ingest.ts'
import { benchLoad } from './load.ts'
import { forgetPeak, peakOf, watchStolen } from './machine.ts'
import { benchMemory } from './memory.ts'
import { benchMixture } from './mixture.ts'
import { benchNights } from './nights.ts'
import { patientSample } from './patient-pages.ts'
import { benchRate } from './rate.ts'
import { responseSample } from './response-pages.ts'
import type { BenchRow } from './row.ts'
import { benchTeams } from './teams.ts'
import { type BenchWarehouse, openBenchWarehouse } from './warehouse.ts'

const USAGE = `npm run bench -- [--quick] [--json FILE] [--only SECTION,SECTION]

  --quick      less of everything: a few minutes
  --json FILE  writes the rows
  --only A,B   some of load, nights, responses, exports, drain, mixture, teams, ingest, memory, analytics, console, emulator, rate`

const { values } = readWords(USAGE, {
  quick: { type: 'boolean' },
  json: { type: 'string' },
  only: { type: 'string' },
})

interface MeasuredRow extends BenchRow {
  readonly section: string
  readonly peakBytes: number | null
  /** Share of the CPU time that other machines took while the section ran; null if unknown. */
  readonly stolen: number | null
}

interface Section {
  readonly name: string
  readonly measure: () => Promise<readonly BenchRow[]>
}

/** Each with a server of its own, so that pending writes and vacuums of earlier sections do not count. */
const withWarehouse = (
  name: string,
  measure: (warehouse: BenchWarehouse) => Promise<readonly BenchRow[]>,
): Section => ({
  name,
  async measure() {
    await using warehouse = await openBenchWarehouse()
    return await measure(warehouse)
  },
})

const { quick = false } = values
const json = values.json === undefined ? null : fileToWrite('--json', values.json)
const sections: readonly Section[] = [
  withWarehouse('load', (warehouse) => benchLoad(warehouse, patientSample, quick ? 20_000 : 100_000)),
  withWarehouse('nights', (warehouse) => benchNights(warehouse, quick ? 20_000 : 100_000)),
  withWarehouse('responses', async (warehouse) => {
    const records = quick ? 20_000 : 200_000
    const rows = await benchLoad(warehouse, responseSample, records)
    return [...rows, ...(await benchMemory(warehouse, responses, records))]
  }),
  withWarehouse('exports', (warehouse) => benchExports(warehouse, quick ? 5_000 : 30_000)),
  withWarehouse('drain', (warehouse) => benchDrain(warehouse, quick ? 20_000 : 220_000)),
  withWarehouse('mixture', (warehouse) => benchMixture(warehouse, quick ? 10_000 : 60_000)),
  withWarehouse('teams', (warehouse) => benchTeams(warehouse, quick ? 600 : 2_000)),
  withWarehouse('ingest', (warehouse) => benchIngest(warehouse, quick ? 10_000 : 30_000)),
  withWarehouse('memory', (warehouse) => benchMemory(warehouse, patients, quick ? 100_000 : 1_000_000)),
  withWarehouse('analytics', (warehouse) => benchAnalytics(warehouse, quick ? 20_000 : 200_000)),
  withWarehouse('console', (warehouse) => {
    const million = { records: 1_000_000, teams: 10, aim: 0.2 }
    return benchConsole(warehouse, quick ? [million] : [million, { records: 10_000_000, teams: 100, aim: 1 }])
  }),
  { name: 'emulator', measure: () => benchEmulator(quick ? 20 : 100) },
  { name: 'rate', measure: () => benchRate({ seconds: quick ? 5 : 20 }) },
]

const names = sections.map(({ name }) => name)
const wanted = values.only === undefined ? names : someOf('--only', values.only, names)

const rows: MeasuredRow[] = []
/** Results of other sections are printed all the same. */
const refused: string[] = []
for (const { name, measure } of sections) {
  if (!wanted.includes(name)) continue
  forgetPeak()
  const stolen = watchStolen()
  const measured = await measure().catch((error: unknown) => {
    refused.push(`${name}: no figure, for ${error instanceof Error ? error.message : String(error)}`)
    return []
  })
  const [share, ownPeak] = [stolen(), peakOf()]
  for (const row of measured) {
    const { peakBytes = ownPeak } = row
    rows.push({ ...row, section: name, peakBytes, stolen: share })
  }
}

const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`
const head = ['what', 'figure', 'unit', 'floor', 'is', 'ratio', 'aim', '', 'peak MiB', 'stolen']
const lines = rows.map((row) => [
  row.what,
  rounded(row.figure),
  row.unit,
  rounded(row.floor),
  row.floorIs,
  Number(row.ratio.toPrecision(3)),
  row.aim,
  row.met ? 'met' : 'missed',
  row.peakBytes === null ? '' : Math.round(row.peakBytes / 1024 / 1024),
  row.stolen === null ? '' : `${Math.round(row.stolen * 100)} %`,
])
process.stdout.write(`${machine}\n\n${table([head, ...lines])}`)
for (const sentence of refused) process.stderr.write(`${sentence}\n`)
if (json !== null) writeFileSync(json, `${JSON.stringify({ machine, rows, refused }, null, 2)}\n`)
process.exitCode = refused.length === 0 ? 0 : 1

function rounded(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}
