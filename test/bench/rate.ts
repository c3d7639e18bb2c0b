/**
 * How much of a rate limit the client uses, and how much it wastes on 429, over real HTTP: one process that does not know the
 * limit, and four of a team that share its budget.
 *
 * Invariant: both are counted at the server; permitted requests are the limit times the seconds, including the first
 * second, in which the client knows nothing yet.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import pino from 'pino'
import { openClient } from '../../src/api/client.ts'
import { systemClock } from '../../src/core/clock.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import { programOf } from './child.ts'
import type { BenchRow } from './row.ts'
import { openBenchWarehouse } from './warehouse.ts'

/** A service with a limit that the client does not know. */
export interface LimitedService extends AsyncDisposable {
  readonly url: string
  readonly apiKey: string
  readonly apiSecret: string
  counts(): { readonly permitted: number; readonly refused: number }
}

export interface RateBench {
  /** Requests per second that the service permits. */
  readonly limits?: readonly number[]
  readonly seconds?: number
  /** Starts the service to measure against; the emulator by default. */
  readonly start?: (limit: number) => Promise<LimitedService>
}

async function startLimitedEmulator(limit: number): Promise<LimitedService> {
  const emulator = await startEmulator({ port: 0, patients: 10, rateLimit: limit })
  const { base_url, teams } = emulator.environments[0]!
  return {
    url: base_url,
    apiKey: teams[0]!.api_key,
    apiSecret: teams[0]!.api_secret,
    counts: () => {
      const { requests, throttled } = emulator.control.counters()
      return { permitted: requests - throttled, refused: throttled }
    },
    [Symbol.asyncDispose]: () => emulator.close(),
  }
}

/** Two rows per limit: accepted requests compared with permitted ones, and rejected requests compared with sent ones. */
export async function benchRate(options: RateBench = {}): Promise<BenchRow[]> {
  const { limits = [50, 500], seconds = 10, start = startLimitedEmulator } = options
  const rows: BenchRow[] = []
  for (const limit of limits) {
    await using service = await start(limit)
    await press(service, seconds)
    const { permitted: accepted, refused } = service.counts()
    rows.push(...rowsOf(limit, seconds, { accepted, refused }, `limit ${limit}/s unknown to the client`))
  }
  return rows
}

function rowsOf(
  limit: number,
  seconds: number,
  { accepted, refused }: { readonly accepted: number; readonly refused: number },
  whose: string,
): BenchRow[] {
  const permitted = limit * seconds
  const used = accepted / permitted
  const wasted = refused / (accepted + refused)
  return [
    {
      what: `requests used, ${whose}`,
      figure: accepted / seconds,
      unit: 'requests/s',
      floorIs: 'permitted by the service',
      floor: limit,
      ratio: used,
      aim: '≥ 0.95',
      met: used >= 0.95,
      notes: `${accepted} of ${permitted} permitted in ${seconds} s`,
    },
    {
      what: `requests wasted on 429, ${whose}`,
      figure: refused,
      unit: 'requests',
      floorIs: 'sent',
      floor: accepted + refused,
      ratio: wasted,
      aim: '< 0.01',
      met: wasted < 0.01,
      notes: `${refused} of ${accepted + refused} sent in ${seconds} s`,
    },
  ]
}

/**
 * Four processes on one budget: a run that begins without a limit, and the next, which begins with what it learned. At least
 * so many requests each: finding a limit takes about ten refused ones, whatever it is.
 */
export async function benchSharedRate(
  { seconds: least, requests }: { readonly seconds: number; readonly requests: number },
  limits = [4, 20, 500],
): Promise<BenchRow[]> {
  const rows: BenchRow[] = []
  await using warehouse = await openBenchWarehouse()
  for (const limit of limits) {
    await warehouse.session.client.query('delete from intake_ops.budgets')
    await using service = await startLimitedEmulator(limit)
    const seconds = Math.max(least, requests / limit)
    for (const known of ['unknown', 'stored']) {
      const before = service.counts()
      await pressTogether(service, warehouse.url, seconds)
      const { permitted, refused } = service.counts()
      const counts = { accepted: permitted - before.permitted, refused: refused - before.refused }
      rows.push(...rowsOf(limit, seconds, counts, `four processes, limit ${limit}/s, ${known}`))
    }
  }
  return rows
}

/** Processes that begin at the same time, and have started by then. */
async function pressTogether({ url, apiKey, apiSecret }: LimitedService, warehouse: string, seconds: number) {
  const args = [
    ...process.execArgv,
    programOf('rate-child'),
    url,
    apiKey,
    apiSecret,
    warehouse,
    String(seconds),
  ]
  const stdio = ['pipe', 'inherit', 'inherit'] as const
  const children = Array.from({ length: 4 }, () => spawn(process.execPath, args, { stdio: [...stdio] }))
  const ends = children.map((child) => once(child, 'exit'))
  await systemClock.sleep(2_000)
  for (const child of children) child.stdin!.end('go\n')
  for (const [code] of await Promise.all(ends))
    if (code !== 0) throw new Error(`a process of the benchmark ended with ${code}`)
}

/** Sends as many requests as the client permits, for this many seconds. */
async function press(service: LimitedService, seconds: number): Promise<void> {
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(), seconds * 1000)
  await using client = openClient({
    baseUrl: service.url,
    apiKey: service.apiKey,
    apiSecret: service.apiSecret,
    apiVersion: 'v2.1',
    concurrency: 4,
    clock: systemClock,
    random: Math.random,
    logger: pino({ level: 'silent' }),
    signal: over.signal,
  })
  const worker = async () => {
    while (!over.signal.aborted) {
      await client.get(client.paths.packets).catch((error: unknown) => {
        if (!over.signal.aborted) throw error
      })
    }
  }
  await Promise.all(Array.from({ length: 8 }, worker))
  clearTimeout(timer)
}
