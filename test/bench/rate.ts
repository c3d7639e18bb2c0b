/**
 * How much of an unknown rate limit the client uses, and how much it wastes on 429, over real HTTP.
 *
 * Invariant: both sides are counted at the server; what was permitted is the limit times the seconds, the first
 * second included, in which the client knows nothing yet.
 */
import pino from 'pino'
import { openClient } from '../../src/api/client.ts'
import { systemClock } from '../../src/core/clock.ts'
import { startThrottledServer, type ThrottledServer } from '../support/throttled-server.ts'

export interface RateRow {
  readonly name: string
  readonly value: number
  readonly floor: number
  readonly ratio: number
  readonly unit: string
  readonly aim: string
  readonly notes: string
}

export interface RateBench {
  /** Requests per second that the service permits. */
  readonly limits?: readonly number[]
  readonly seconds?: number
  /** Starts the service to measure against; a small sliding-window server when left out. */
  readonly start?: (
    limit: number,
  ) => Promise<Pick<ThrottledServer, 'url' | 'counts'> & AsyncDisposable & Partial<Credentials>>
}

interface Credentials {
  readonly apiKey: string
  readonly apiSecret: string
}

/** Two rows a limit: requests accepted beside those permitted, and requests refused beside those sent. */
export async function benchRate(options: RateBench = {}): Promise<RateRow[]> {
  const { limits = [50, 500], seconds = 10, start = (limit) => startThrottledServer({ limit }) } = options
  const rows: RateRow[] = []
  for (const limit of limits) {
    await using service = await start(limit)
    await press(service, seconds)
    const { permitted: accepted, refused } = service.counts
    const permitted = limit * seconds
    rows.push(
      {
        name: `requests used, limit ${limit}/s unknown to the client`,
        value: accepted / seconds,
        floor: limit,
        ratio: accepted / permitted,
        unit: 'requests/s',
        aim: '≥ 0.95',
        notes: `${accepted} of ${permitted} permitted in ${seconds} s, the search for the limit included`,
      },
      {
        name: `requests wasted on 429, limit ${limit}/s unknown to the client`,
        value: refused,
        floor: accepted + refused,
        ratio: refused / (accepted + refused),
        unit: 'requests',
        aim: '< 0.01',
        notes: `${refused} of ${accepted + refused} sent in ${seconds} s`,
      },
    )
  }
  return rows
}

/** Asks for as much as the client lets through, for so many seconds. */
async function press(
  service: { readonly url: string } & Partial<Credentials>,
  seconds: number,
): Promise<void> {
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(), seconds * 1000)
  await using client = openClient({
    baseUrl: service.url,
    apiKey: service.apiKey ?? '00000000-0000-4000-8000-000000000000',
    apiSecret: service.apiSecret ?? 'bench',
    apiVersion: 'v2.1',
    concurrency: 4,
    clock: systemClock,
    random: Math.random,
    logger: pino({ level: 'silent' }),
    signal: over.signal,
  })
  const worker = async () => {
    while (!over.signal.aborted) {
      await client.get(client.paths.forms).catch((error: unknown) => {
        if (!over.signal.aborted) throw error
      })
    }
  }
  await Promise.all(Array.from({ length: 8 }, worker))
  clearTimeout(timer)
}
