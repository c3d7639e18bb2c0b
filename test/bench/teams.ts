/**
 * Six teams in one process, each with a service that permits twenty requests per second, compared with one team alone.
 *
 * Invariant: each team's service counts its own requests, and every team has all its records in the end.
 */
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { backfill } from '../../src/extract/backfill.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { type BenchRow, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

const TEAMS = 6
const LIMIT = 20
const PAGE = 10
const AIM = 0.9
/** The streams that are read here; the others are empty or need a request or two. */
const READ = ['patients', 'forms', 'packets', 'documents', 'responses', 'messages']

export async function benchTeams(warehouse: BenchWarehouse, records: number): Promise<readonly BenchRow[]> {
  const alone = await readAll(warehouse, 'alone', 1, records)
  const together = await readAll(warehouse, 'together', TEAMS, records)
  const ratio = together / (TEAMS * alone)
  return [
    {
      what: `${TEAMS} teams read in one process, each permitted ${LIMIT} requests/s`,
      figure: together,
      unit: 'requests/s',
      floorIs: `${TEAMS} times one team alone`,
      floor: TEAMS * alone,
      ratio,
      aim: `≥ ${AIM}`,
      met: ratio >= AIM,
    },
  ]
}

/** Requests per second that the services answered to a backfill of this many teams. */
async function readAll(
  { url, session }: BenchWarehouse,
  name: string,
  count: number,
  records: number,
): Promise<number> {
  const emulators: Emulator[] = []
  try {
    for (let at = 0; at < count; at++) emulators.push(await startEmulator(worldOf(records)))
    const teams = emulators.map(({ environments }, at) => {
      const { base_url: baseUrl, teams: own } = environments[0]!
      const { api_key: apiKey, api_secret: apiSecret } = own[0]!
      return { name: `${name} ${at}`, baseUrl, apiKey, apiSecret, apiVersion: 'v2.1', concurrency: 4 }
    })
    const { seconds, result } = await timed(() =>
      backfill({
        ...{
          url,
          teams,
          streams: STREAMS.filter((stream) => READ.includes(stream.name)),
          window: EVERYTHING,
        },
        ...{
          allowMassDelete: false,
          dry: false,
          migrated: true,
          onProgress() {},
        },
        ...{ clock: systemClock, random: Math.random, logger: pino({ level: 'silent' }) },
        signal: new AbortController().signal,
      }),
    )
    if (result.status !== 'succeeded') throw new Error(`the run of ${count} teams ${result.status}`)
    const { rows } = await session.client.query<{ patients: number }>(
      `select count(*)::int as patients from intake.patients join intake.teams using (team_id)
       where starts_with(name, $1) and _deleted_at is null`,
      [`${name} `],
    )
    if (rows[0]!.patients !== count * records)
      throw new Error(`${rows[0]!.patients} of ${count * records} patients`)
    const answered = emulators.map(({ control }) => control.counters())
    return answered.reduce((sum, { requests, throttled }) => sum + requests - throttled, 0) / seconds
  } finally {
    for (const emulator of emulators) await emulator.close()
  }
}

function worldOf(records: number) {
  return {
    ...{ port: 0, patients: records, responses: records, forms: 5, packets: 2, documents: 2 },
    ...{ pageSize: PAGE, rateLimit: LIMIT },
  }
}
