/**
 * `npm run bench [-- --quick] [-- --json FILE] [-- --svg FILE] [-- --only load,drain]`: each figure with its floor,
 * measured in the same run, with the peak memory of the measured process and the CPU time that other machines took.
 *
 * The machines this runs on are shared and noisy, so a ratio counts more than a figure; a missed aim is printed as such
 * and is no failure, because a benchmark that fails on a busy machine would soon be ignored. A section whose rows do not
 * add up has no figure: it is reported, the others are measured, and the command exits with 1.
 */
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { table } from '../../src/commands/printable.ts'
import { type Plot, plotSvg } from '../support/plot.ts'
import { fileToWrite, readWords, someOf } from '../support/words.ts'
import { benchAnalytics } from './analytics.ts'
import { benchClaims } from './claims.ts'
import { benchConsole } from './console.ts'
import { benchDays } from './days.ts'
import { benchDrain } from './drain.ts'
import { benchEmulator } from './emulator.ts'
import { benchErasure } from './erasure.ts'
import { benchExports } from './exports.ts'
import { benchIngest } from './ingest.ts'
import { benchKills } from './kills.ts'
import { benchLoad } from './load.ts'
import { benchLong } from './long.ts'
import { forgetPeak, peakOf, watchStolen } from './machine.ts'
import { benchMemory } from './memory.ts'
import { benchMixture } from './mixture.ts'
import { benchNights } from './nights.ts'
import { benchPartitions } from './partitions.ts'
import { patientSample } from './patient-pages.ts'
import { benchPeers } from './peers.ts'
import { benchRate, benchSharedRate } from './rate.ts'
import { responseSample } from './response-pages.ts'
import type { BenchRow } from './row.ts'
import { benchStorage } from './storage.ts'
import { benchTeams } from './teams.ts'
import { type BenchWarehouse, openBenchWarehouse } from './warehouse.ts'
import { benchWorkers } from './workers.ts'

const USAGE = `npm run bench -- [--quick] [--json FILE] [--svg FILE] [--only SECTION,SECTION]

  --quick      less of everything: a few minutes
  --json FILE  writes the rows
  --svg FILE   plots how cost and memory grow with the number of records
  --only A,B   some of load, nights, responses, storage, erasure, exports, drain, peers, mixture, teams, partitions, workers, ingest, days,
               memory, analytics, console, emulator, rate, and two that run only when they are named: kills, a first load
               of a million patients that is killed ten times; long, ten million patients and two million responses`

const { values } = readWords(USAGE, {
  quick: { type: 'boolean' },
  json: { type: 'string' },
  svg: { type: 'string' },
  only: { type: 'string' },
})

interface MeasuredRow extends BenchRow {
  readonly section: string
  readonly peakBytes: number | null
  /** Share of the CPU time that other machines took while the section ran; null if unknown. */
  readonly stolen: number | null
}

/** An hour, and fifty gigabytes of disk. */
const LONG = 'long'
/** Ten minutes. */
const KILLS = 'kills'

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
const svg = values.svg === undefined ? null : fileToWrite('--svg', values.svg)
const json = values.json === undefined ? null : fileToWrite('--json', values.json)
const sections: readonly Section[] = [
  withWarehouse('load', (warehouse) => benchLoad(warehouse, patientSample, quick ? 20_000 : 100_000)),
  withWarehouse('nights', (warehouse) => benchNights(warehouse, quick ? 20_000 : 100_000)),
  withWarehouse('responses', async (warehouse) => {
    const records = quick ? 20_000 : 200_000
    const rows = await benchLoad(warehouse, responseSample, records)
    return [...rows, ...(await benchMemory(warehouse, responseSample, [records]))]
  }),
  withWarehouse('storage', (warehouse) => benchStorage(warehouse, quick ? 10_000 : 50_000)),
  withWarehouse('erasure', (warehouse) => benchErasure(warehouse, quick ? 20_000 : 100_000)),
  withWarehouse('exports', (warehouse) => benchExports(warehouse, quick ? 5_000 : 30_000)),
  withWarehouse('drain', (warehouse) => benchDrain(warehouse, quick ? 20_000 : 220_000)),
  withWarehouse('peers', (warehouse) => benchPeers(warehouse, quick ? 20_000 : 100_000)),
  withWarehouse('mixture', (warehouse) => benchMixture(warehouse, quick ? 10_000 : 60_000)),
  withWarehouse('teams', (warehouse) => benchTeams(warehouse, quick ? 600 : 2_000)),
  {
    name: 'partitions',
    measure: () =>
      benchPartitions(
        patientSample,
        quick ? { records: 20_000, events: 20_000 } : { records: 100_000, events: 220_000 },
      ),
  },
  withWarehouse('workers', async (warehouse) => [
    ...(await benchClaims(warehouse, 200)),
    ...(await benchWorkers(warehouse, { teams: quick ? 16 : 32, records: 10_000 })),
  ]),
  withWarehouse('ingest', (warehouse) => benchIngest(warehouse, quick ? 10_000 : 30_000)),
  withWarehouse('days', (warehouse) =>
    benchDays(
      warehouse,
      quick ? { inDay: 200_000, dropped: 200_000 } : { inDay: 3_000_000, dropped: 2_000_000 },
    ),
  ),
  withWarehouse('memory', (warehouse) =>
    benchMemory(warehouse, patientSample, quick ? [100_000] : [100_000, 1_000_000]),
  ),
  withWarehouse('analytics', (warehouse) => benchAnalytics(warehouse, quick ? 20_000 : 200_000)),
  withWarehouse('console', (warehouse) => {
    const million = { records: 1_000_000, teams: 10, aim: 0.2 }
    return benchConsole(warehouse, quick ? [million] : [million, { records: 10_000_000, teams: 100, aim: 1 }])
  }),
  { name: 'emulator', measure: () => benchEmulator(quick ? 20 : 100) },
  withWarehouse(LONG, (warehouse) => {
    const many = { patients: 10_000_000, responses: 2_000_000 }
    return benchLong(warehouse, quick ? { patients: 100_000, responses: 20_000 } : many)
  }),
  withWarehouse(KILLS, (warehouse) => benchKills(warehouse, quick ? 100_000 : 1_000_000)),
  {
    name: 'rate',
    measure: async () => [
      ...(await benchRate({ seconds: quick ? 5 : 20 })),
      ...(await benchSharedRate(quick ? { seconds: 5, requests: 0 } : { seconds: 60, requests: 1_500 })),
    ],
  },
]

const names = sections.map(({ name }) => name)
const wanted =
  values.only === undefined
    ? names.filter((name) => ![LONG, KILLS].includes(name))
    : someOf('--only', values.only, names)

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
if (svg !== null)
  writeFileSync(svg, plotSvg({ ...growthOf(rows), title: 'Figures by the number of records' }))
if (json !== null) writeFileSync(json, `${JSON.stringify({ machine, rows, refused }, null, 2)}\n`)
process.exitCode = refused.length === 0 ? 0 : 1

function rounded(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}

/** One panel a kind of figure, one line a stream; the base size is the floor of each row. */
function growthOf(measured: readonly BenchRow[]): Pick<Plot, 'xTitle' | 'isLogX' | 'panels'> {
  const panels = new Map<string, Map<string, [number, number][]>>()
  for (const { plotted, figure, floor } of measured) {
    if (plotted === undefined) continue
    const lines = panels.get(plotted.panel) ?? new Map<string, [number, number][]>()
    const points = lines.get(plotted.line) ?? [[plotted.few, floor]]
    panels.set(plotted.panel, lines.set(plotted.line, [...points, [plotted.records, figure]]))
  }
  return {
    xTitle: 'records',
    isLogX: true,
    panels: [...panels].map(([title, lines]) => ({
      title,
      lines: [...lines].map(([name, points]) => ({ name, points: points.toSorted(([a], [b]) => a - b) })),
    })),
  }
}
