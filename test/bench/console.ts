/**
 * How soon the console's overview and `status` answer, over a warehouse filled by SQL; and what a hundred open pages cost
 * the ingester.
 *
 * Invariant: the overview is read anew for each sample, by a console that has just been opened. The ingester, the sender
 * and the console are processes of their own; samples with and without pages alternate.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { readStatus } from '../../src/operate/health/status.ts'
import { ALL_STREAMS, STREAMS } from '../../src/streams/catalogue.ts'
import { startConsole, whole } from '../console/support/console.ts'
import { programOf } from './child.ts'
import { emptyInbox, send } from './ingest.ts'
import { startBenchIngester } from './ingester.ts'
import { type BenchRow, median, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

/** Records, and the teams that have them. */
export interface ConsoleSize {
  readonly records: number
  readonly teams: number
  /** Seconds within which the overview answers. */
  readonly aim: number
}

const SAMPLES = 5
const STATUS_AIM = 1
const DAYS = 60
const PAGES = 100
const PAGES_AIM = 0.95
const EVENTS = 20_000
/** Pages load what changed in the first seconds. */
const SETTLE_MS = 4_000

/** Fills an empty warehouse, from the first size to the last. */
export async function benchConsole(
  warehouse: BenchWarehouse,
  sizes: readonly ConsoleSize[],
): Promise<readonly BenchRow[]> {
  await keepInboxDays(warehouse.url, { days: 30, now: new Date() })
  const rows: BenchRow[] = []
  let filled = { records: 0, teams: 0 }
  for (const size of sizes) {
    await fill(warehouse, filled, size)
    filled = size
    rows.push(...(await timesOf(warehouse, size)))
  }
  rows.push(await costOfPages(warehouse))
  return rows
}

async function timesOf({ url }: BenchWarehouse, { records, teams, aim }: ConsoleSize): Promise<BenchRow[]> {
  const overview: number[] = []
  const login: number[] = []
  const status: number[] = []
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    await using page = await startConsole(url)
    const reader = await page.enter('viewer')
    // Its code and connections are warm; no reading has been taken.
    await reader.get('/runs/1')
    login.push((await timed(() => page.reader().get('/login'))).seconds)
    const { seconds, result } = await timed(() => whole(reader, '/'))
    if (result.split('<section').length - 1 !== teams) throw new Error('the overview does not show all teams')
    overview.push(seconds)
    status.push((await timed(() => readStatus(url, 30))).seconds)
  }
  const of = `${records.toLocaleString('en-US')} records, ${teams} teams`
  const row = (what: string, samples: readonly number[], limit: number): BenchRow => {
    const [figure, floor] = [median(samples) * 1_000, median(login) * 1_000]
    return {
      ...{ what: `${what}, ${of}`, figure, unit: 'ms', floorIs: 'a page without a reading', floor },
      ...{
        ratio: figure / floor,
        aim: `< ${limit * 1_000} ms`,
        met: figure < limit * 1_000,
        peakBytes: null,
      },
    }
  }
  return [row('overview of the console', overview, aim), row('status', status, STATUS_AIM)]
}

async function costOfPages(warehouse: BenchWarehouse): Promise<BenchRow> {
  await using ingester = await startBenchIngester(warehouse.url)
  const rate = async () => {
    await emptyInbox(warehouse)
    const report = await send({ origin: ingester.url, events: EVENTS })
    if (report.refused > 0) throw new Error(`${report.refused} events were refused`)
    return report.acknowledged / report.seconds
  }
  await rate()
  const alone: number[] = []
  const watched: number[] = []
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    alone.push(await rate())
    await using _pages = await openPages(warehouse.url)
    watched.push(await rate())
  }
  const ratio = median(watched) / median(alone)
  return {
    ...{ what: `webhook events made durable while ${PAGES} pages of the console are open`, unit: 'events/s' },
    ...{ figure: median(watched), floor: median(alone), floorIs: 'the same without pages', ratio },
    ...{ aim: `≥ ${PAGES_AIM}`, met: ratio >= PAGES_AIM },
  }
}

async function openPages(url: string): Promise<AsyncDisposable> {
  const words = [...process.execArgv, programOf('console-child'), url, String(PAGES)]
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const { done } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (done === true) throw new Error('the console of the benchmark did not start')
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))
  return {
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await ended
    },
  }
}

const PORTION = 500_000

/** Records in all streams of all teams, a run each night, a verification each night, events each hour. */
async function fill(
  { session: { client } }: BenchWarehouse,
  before: { readonly records: number; readonly teams: number },
  { records, teams }: ConsoleSize,
): Promise<void> {
  const streams = STREAMS.map(({ name }) => name)
  await client.query(
    `insert into intake.teams (name) select 'team-' || n from generate_series($1::int + 1, $2::int) n order by n`,
    [before.teams, teams],
  )
  for (let from = before.records; from < records; from += PORTION) {
    await client.query(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
       select team.team_id, ($3::text[])[n % 3 + 1], 'record-' || n, now() - n % 1000000 * interval '1 second', now(),
         sha256(int8send(n)), 'run:1 page:1', jsonb_build_object('id', 'record-' || n, 'text', repeat('x', 200))
       from generate_series($1::bigint + 1, $2::bigint) n
       join (select team_id, row_number() over (order by team_id) - 1 as place from intake.teams) team
         on team.place = n % (select count(*) from intake.teams)`,
      [from, Math.min(records, from + PORTION), ['patients', 'responses', 'messages']],
    )
  }
  await client.query('delete from intake_ops.runs')
  await client.query(
    `insert into intake_ops.runs (kind, status, options, started_at, finished_at)
     select kind, 'succeeded', jsonb_build_object('streams', $2::text[], 'teams', (select array_agg(name) from intake.teams)),
       now() - day * interval '1 day' - pause, now() - day * interval '1 day' - pause + interval '10 minutes'
     from generate_series($1::int - 1, 0, -1) day,
       (values ('backfill', interval '3 hours'), ('verify', interval '2 hours')) as each (kind, pause)
     order by day desc, kind`,
    [DAYS, streams],
  )
  await client.query(
    `insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, fetched, changed, unchanged, seconds)
     select run_id, team_id, stream, 'succeeded', 100, 10000, 100, 9900, 12
     from intake_ops.runs cross join intake.teams cross join unnest($1::text[]) stream where kind = 'backfill'`,
    [streams],
  )
  await client.query(
    `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different,
       repaired, missing_ids, extra_ids, different_ids, verified_at)
     select run_id, team_id, stream, true, 10000, 10000, 0, 0, 0, 0, '{}', '{}', '[]', started_at
     from intake_ops.runs cross join intake.teams cross join unnest($1::text[]) stream where kind = 'verify'`,
    [ALL_STREAMS.map(({ name }) => name)],
  )
  await client.query(
    `insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, date_trunc('hour', now()) - hour * interval '1 hour', 100, now() - hour * interval '1 hour'
     from intake.teams cross join generate_series(0, 30 * 24) hour on conflict do nothing`,
  )
  await client.query('vacuum analyze')
}
