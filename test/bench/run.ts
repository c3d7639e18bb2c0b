/**
 * `npm run bench [-- --quick] [-- --json FILE]`: each figure beside its floor, measured in the same run.
 *
 * The machines this runs on are shared and noisy, so a ratio counts more than a figure; a missed aim is printed as
 * such and is no failure, because a benchmark that fails on a busy machine would soon be ignored.
 */
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { table } from '../../src/commands/table.ts'
import { patients } from '../../src/streams/patients.ts'
import { responses } from '../../src/streams/responses.ts'
import { benchDrain } from './drain.ts'
import { benchEmulator } from './emulator.ts'
import { benchExports } from './exports.ts'
import { benchIngest } from './ingest.ts'
import { benchLoad } from './load.ts'
import { benchMemory } from './memory.ts'
import { patientSample } from './patient-pages.ts'
import { benchRate } from './rate.ts'
import { responseSample } from './response-pages.ts'
import type { BenchRow } from './row.ts'
import { openBenchWarehouse } from './warehouse.ts'

const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, json: { type: 'string' }, only: { type: 'string' } },
})

const wanted = (name: string) => values.only === undefined || values.only.split(',').includes(name)

const rows: BenchRow[] = []
{
  await using warehouse = await openBenchWarehouse()
  if (wanted('load'))
    rows.push(...(await benchLoad(warehouse, patientSample, values.quick ? 20_000 : 100_000)))
  if (wanted('responses')) {
    const records = values.quick ? 20_000 : 200_000
    rows.push(...(await benchLoad(warehouse, responseSample, records)))
    rows.push(...(await benchMemory(warehouse, responses, records)))
  }
  if (wanted('exports')) rows.push(...(await benchExports(warehouse, values.quick ? 5_000 : 30_000)))
  if (wanted('drain')) rows.push(...(await benchDrain(warehouse, values.quick ? 20_000 : 220_000)))
  if (wanted('ingest')) rows.push(...(await benchIngest(warehouse, values.quick ? 10_000 : 30_000)))
  if (wanted('memory'))
    rows.push(...(await benchMemory(warehouse, patients, values.quick ? 100_000 : 1_000_000)))
}
if (wanted('emulator')) rows.push(...(await benchEmulator(values.quick ? 20 : 100)))
if (wanted('rate')) rows.push(...(await benchRate({ seconds: values.quick ? 5 : 20 })))

const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`
const head = ['what', 'figure', 'unit', 'floor', 'is', 'ratio', 'aim', '']
const lines = rows.map((row) => [
  row.what,
  rounded(row.figure),
  row.unit,
  rounded(row.floor),
  row.floorIs,
  Number(row.ratio.toPrecision(3)),
  row.aim,
  row.met ? 'met' : 'missed',
])
process.stdout.write(`${machine}\n\n${table([head, ...lines])}`)
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine, rows }, null, 2)}\n`)

function rounded(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}
