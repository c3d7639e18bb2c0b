/**
 * A first load over HTTP whose process is killed ten times and started again, compared with one that is left alone.
 *
 * Invariant: every record is stored once in the end. The times of the kills are drawn from a seed, over the time that the
 * undisturbed load took, and each process that is killed has begun to read.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../src/core/clock.ts'
import { startChild } from './emulator.ts'
import { patientSample } from './patient-pages.ts'
import { type BenchRow, timed } from './row.ts'
import { type BenchWarehouse, countRows, emptyTables } from './warehouse.ts'

const PAGE_SIZE = 500
const KILLS = 10
const AIM = 1.3

export async function benchKills(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  await using service = await startChild({ records, pageSize: PAGE_SIZE })
  const env = {
    ...{ DATABASE_URL: warehouse.url, INTAKE_BASE_URL: service.origin },
    ...{ INTAKE_API_KEY: service.headers['x-api-key'], INTAKE_API_SECRET: service.headers['x-api-secret'] },
  }
  const alone = await loadKilled(warehouse, env, records, [])
  await emptyTables(warehouse, patientSample.stream)
  // Within the undisturbed time, in order; a load that is killed takes longer.
  const times = draws(KILLS).map((share) => share * alone)
  const killed = await loadKilled(warehouse, env, records, times)
  const ratio = killed / alone
  return [
    {
      ...{
        what: `first load of ${records} patients over HTTP, killed ${KILLS} times`,
        figure: killed,
        unit: 's',
      },
      ...{ floorIs: 'left alone', floor: alone, ratio, aim: `≤ ${AIM}`, met: ratio <= AIM, peakBytes: null },
    },
  ]
}

/** Seconds until everything is loaded, by processes that are killed once the load has taken this long. */
async function loadKilled(
  warehouse: BenchWarehouse,
  env: NodeJS.ProcessEnv,
  records: number,
  times: readonly number[],
): Promise<number> {
  const left = [...times]
  const begun = performance.now()
  const { seconds } = await timed(async () => {
    for (;;) {
      const child = startBackfill(env)
      const ended = once(child, 'exit') as Promise<[number | null, string | null]>
      const at = left.shift()
      if (at !== undefined) {
        const wait = Math.max(0, at * 1000 - (performance.now() - begun))
        const isOver = await Promise.race([ended.then(() => true), systemClock.sleep(wait).then(() => false)])
        if (isOver) throw new Error('a process ended before it was killed')
        child.kill('SIGKILL')
      }
      const [code, signal] = await ended
      if (at === undefined && code === 0) return
      if (at === undefined) throw new Error(`a backfill ended with ${code ?? signal}`)
    }
  })
  const [stored] = await countRows(warehouse, patientSample.stream)
  if (stored !== records) throw new Error(`${stored} of ${records} patients are stored`)
  return seconds
}

function startBackfill(env: NodeJS.ProcessEnv): ChildProcess {
  const suffix = extname(fileURLToPath(import.meta.url))
  const cli = fileURLToPath(new URL(`../../src/cli${suffix}`, import.meta.url))
  return spawn(process.execPath, [...process.execArgv, cli, 'backfill', '--streams', 'patients', '--json'], {
    stdio: ['ignore', 'ignore', 'ignore'],
    env: { ...process.env, ...env },
  })
}

/** Numbers between 0 and 1, in order. */
function draws(count: number): readonly number[] {
  let state = 20_261_123
  return Array.from({ length: count }, () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }).sort((a, b) => a - b)
}
