/**
 * Slices of one planned run that two worker processes execute, compared with one. Each slice is the list of another
 * team; a bare server gives all of them the same bytes, so that the service uses little of the machine. It answers at once,
 * so that workers and Postgres are the limit, or after a time, so that waiting is.
 *
 * Invariant: a figure counts only when the run succeeded and every team has all records.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../src/core/clock.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { startChild } from './emulator.ts'
import { patientSample } from './patient-pages.ts'
import { type BenchRow, timed } from './row.ts'
import { type BenchWarehouse, countRows, emptyTables } from './warehouse.ts'

/** Of a service that answers at once, and of one that takes its time. */
const SERVICES = [{ pageSize: 500 }, { pageSize: 100, latencyMs: 500 }] as const
const AIM = 1.6
const POLL_MS = 20

export interface WorkersOptions {
  readonly teams: number
  /** Of each team. */
  readonly records: number
}

export async function benchWorkers(
  warehouse: BenchWarehouse,
  options: WorkersOptions,
): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = []
  for (const service of SERVICES) rows.push(await benchWith(warehouse, service, options))
  return rows
}

async function benchWith(
  warehouse: BenchWarehouse,
  { pageSize, latencyMs }: { readonly pageSize: number; readonly latencyMs?: number },
  { teams, records }: WorkersOptions,
): Promise<BenchRow> {
  await using emulator = await startChild({ records, pageSize })
  const { origin, headers } = emulator
  const first = `/v2/patients?page_size=${pageSize}`
  const paths = [first, ...(await linksFrom(origin + first, headers))]
  await using service = await startChild({ copy: { origin, headers, paths, latencyMs } })
  const folder = makeFolder('bench-workers-')
  try {
    const file = join(folder, 'intake-sync.json')
    const all = Array.from({ length: teams }, (_, at) => ({
      ...{ name: `team-${at}`, baseUrl: service.origin, apiKey: 'k', apiSecret: 's', pageSize },
    }))
    writeFileSync(file, JSON.stringify({ teams: all }), {
      mode: 0o600,
    })
    const one = await runWith(warehouse, file, 1, { teams, records })
    const two = await runWith(warehouse, file, 2, { teams, records })
    const ratio = one.seconds / two.seconds
    const from = latencyMs === undefined ? '' : ` from a service that takes ${latencyMs} ms for ${pageSize}`
    return {
      ...{ what: `slices of ${records} patients${from}, two workers`, figure: teams / two.seconds },
      ...{ unit: 'slices/s', floorIs: 'one worker', floor: teams / one.seconds },
      ...{ ratio, aim: `≥ ${AIM}`, met: ratio >= AIM, peakBytes: null },
      notes: `${one.busy.toFixed(2)} and ${two.busy.toFixed(2)} of ${cpus().length} cores busy`,
    }
  } finally {
    removeFolder(folder)
  }
}

/** The paths that `next` links lead to. */
async function linksFrom(url: string, headers: Record<string, string>): Promise<readonly string[]> {
  const response = await fetch(url, { headers })
  const { next } = (await response.json()) as { readonly next: string | null }
  if (next === null) return []
  const { pathname, search } = new URL(next)
  return [pathname + search, ...(await linksFrom(next, headers))]
}

async function runWith(
  warehouse: BenchWarehouse,
  config: string,
  count: number,
  { teams, records }: WorkersOptions,
) {
  await emptyTables(warehouse, patientSample.stream)
  const workers = Array.from({ length: count }, () => start(warehouse, config, 'work'))
  const ends = workers.map((worker) => once(worker, 'exit'))
  let isOver = false
  void Promise.race(ends).then(() => {
    isOver = true
  })
  const until = async (query: string, value: number) => {
    for (;;) {
      const { rows } = await warehouse.session.client.query<{ value: number }>(query)
      if (rows[0]!.value === value) return
      if (isOver) throw new Error('a worker ended')
      await systemClock.sleep(POLL_MS)
    }
  }
  try {
    const sessions = `select count(*)::int as value from pg_stat_activity where application_name like 'intake-sync work worker %'`
    await until(sessions, count)
    const before = busyTime()
    const { seconds } = await timed(async () => {
      const [code] = await once(
        start(warehouse, config, 'backfill', '--detach', '--streams', 'patients'),
        'exit',
      )
      if (code !== 0) throw new Error(`the run could not be planned: ${code}`)
      await until(`select count(*)::int as value from intake_ops.slices where state <> 'done'`, 0)
    })
    const busy = (busyTime() - before) / 1000 / seconds
    const [stored] = await countRows(warehouse, patientSample.stream)
    if (stored !== teams * records) throw new Error(`${stored} of ${teams * records} patients are stored`)
    return { seconds, busy }
  } finally {
    for (const worker of workers) worker.kill('SIGTERM')
    await Promise.all(ends)
  }
}

function start({ url }: BenchWarehouse, config: string, ...words: string[]): ChildProcess {
  const suffix = extname(fileURLToPath(import.meta.url))
  const cli = fileURLToPath(new URL(`../../src/cli${suffix}`, import.meta.url))
  return spawn(process.execPath, [...process.execArgv, cli, ...words], {
    stdio: ['ignore', 'ignore', 'ignore'],
    env: { ...process.env, DATABASE_URL: url, INTAKE_CONFIG: config },
  })
}

/** Milliseconds that all processors were busy since the machine started. */
function busyTime(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0)
}
