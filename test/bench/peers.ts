/**
 * The closest public tool: a library that writes the events and lists of a hosted API to Postgres. It is measured in the
 * same run, on the same Postgres, in a database of its own. npm installs it into a folder that is removed afterwards.
 */
import { patients } from '../../src/streams/patients.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runProgram, whenInterrupted } from '../support/interruption.ts'
import { programOf } from './child.ts'
import { pagesOf } from './pages.ts'
import { patientSample } from './patient-pages.ts'
import { runRoad } from './road.ts'
import { type BenchRow, timed } from './row.ts'
import { openSpool } from './spool.ts'
import { type BenchWarehouse, countRows, emptyTables } from './warehouse.ts'

export const PEER = 'the closest public tool'
const NAME = '@supabase/stripe-sync-engine'
/** The tool, and the client that it needs. */
const PACKAGES = [`${NAME}@0.48.5`, 'stripe@23.1.0']
const INSTALL = [
  ...['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'],
  ...['--prefer-offline', '--fetch-retries=0', '--fetch-timeout=20000'],
]
const WARM_RECORDS = 10_000

/** Compares a first load with a list that the tool writes. Returns no row if the tool cannot be measured. */
export async function benchPeers(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  const floor = await peerRate(warehouse, 'list')
  if (floor === null) return []
  await firstLoad(warehouse, WARM_RECORDS)
  const figure = records / (await firstLoad(warehouse, records))
  const ratio = figure / floor
  const what = `first load of ${records} patients, next to a list of records of one row each`
  return [{ what, figure, unit: 'records/s', floorIs: PEER, floor, ratio, aim: '≥ 3', met: ratio >= 3 }]
}

/** Returns the duration in seconds. */
async function firstLoad(warehouse: BenchWarehouse, records: number): Promise<number> {
  using pages = openSpool()
  for (let page = 0; page < pagesOf(patientSample, records); page++)
    pages.add(patientSample.pageAt(page, records))
  await emptyTables(warehouse, patients)
  const { seconds } = await timed(() => runRoad(warehouse.url, patientSample, records, pages.at))
  const [count] = await countRows(warehouse, patients)
  if (count !== records) throw new Error(`${count} of ${records} records were loaded`)
  return seconds
}

/** Events or records per second; null, and a printed sentence, if the tool cannot be installed or fails. */
export async function peerRate(warehouse: BenchWarehouse, work: 'events' | 'list'): Promise<number | null> {
  using folder = openFolder()
  const install = [...INSTALL, '--prefix', folder.path, ...PACKAGES]
  const installed = await runProgram('npm', install, { stdio: ['ignore', 'ignore', 'pipe'] }).catch(
    (error: Error) => ({ status: 1, stderr: error.message }),
  )
  if (installed.status !== 0)
    return noFigure(`npm cannot install ${PACKAGES.join(' and ')}: ${installed.stderr.split('\n')[0]}`)
  await using database = await openDatabase(warehouse)
  const words = [programOf('peer-child'), folder.path, NAME, database.url, work]
  const { status, stdout, stderr } = await runProgram(process.execPath, [...process.execArgv, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return status === 0 ? Number(stdout) : noFigure(stderr)
}

function noFigure(why: string): null {
  process.stderr.write(`${PEER} is not measured in this run: ${why.trim()}\n`)
  return null
}

function openFolder() {
  const path = makeFolder('peer-')
  const forget = whenInterrupted(() => removeFolder(path))
  return {
    path,
    [Symbol.dispose]() {
      forget()
      removeFolder(path)
    },
  }
}

async function openDatabase({ url, session: { client } }: BenchWarehouse) {
  await client.query('create database peer')
  // The tool's migrations name this role.
  await client.query('create role postgres')
  return {
    url: Object.assign(new URL(url), { pathname: '/peer' }).href,
    async [Symbol.asyncDispose]() {
      await client.query('drop database peer with (force)')
      await client.query('drop role postgres')
    },
  }
}
