/**
 * Kills workers at chosen points while they execute planned runs: as a claim, a page, a settle or the end of a run is
 * stored, before a statement, after it, or while Postgres executes it. All sessions of the worker end, as they do when its
 * process is killed; it starts again as another worker.
 *
 * Invariant: the seed chooses the points and what changes at the service; triggers of the test count what was stored.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { planBackfill } from '../../src/extract/planned-backfill.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { openWorker } from '../../src/extract/work.ts'
import type { AlertsDocument } from '../../src/operate/alerts/post.ts'
import { openAlerts } from '../../src/operate/alerts/round.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { expectedOf, storedTables, type Tables } from '../e2e/support/expected.ts'
import { seeded } from './crash.ts'
import { query } from './query.ts'

const POINTS = ['claim', 'page', 'settle', 'close'] as const
type Point = (typeof POINTS)[number]
const PLACES = ['before', 'amid', 'after'] as const
/** The last statement of each point at which a worker may be killed. */
const DEEPEST = { claim: 8, page: 60, settle: 12, close: 5 } as const
/** A slice that ten workers lost is given up, which is no loss; so fewer are killed in a run. */
const KILLS_A_RUN = 8
/** A slice is lost if no slice of its run was claimed, taken away or settled for so long. */
const PATIENCE_MS = 120_000
/** A run has statements of each point; after so many without a kill, the point is not recognized any more. */
const MAX_RUNS_WITHOUT_A_KILL = 20
/** Runs between two comparisons of all tables with the source. */
const COMPARED_EVERY = 10
const STREAMS = ['patients', 'forms', 'packets'] as const
const TABLES = /^(?:patient|form|packet|question)/
const WORKERS = 3

interface Kill {
  readonly point: Point
  readonly nth: number
  readonly place: (typeof PLACES)[number]
  /** At a page: ends only the session that loads, not the worker. */
  readonly isOnlySession: boolean
}

export interface WorkerKillOptions {
  /** A migrated warehouse. */
  readonly url: string
  readonly seed: number
  readonly kills: number
  readonly say: (line: string) => void
}

export interface WorkerKills {
  readonly runs: number
  readonly slices: number
  readonly takeovers: number
  readonly killed: Readonly<Record<Point, number>>
  readonly places: Readonly<Record<Kill['place'], number>>
  /** Posts of alerts. */
  readonly posts: number
  /** Comparisons of all tables of a team with the source. */
  readonly compared: number
  /** How often each happened that must not. */
  readonly wrong: Readonly<Record<Wrong, number>>
  /** A line for each. */
  readonly faults: readonly string[]
}

const WRONGS = {
  lost: 'slices lost',
  settled: 'slices settled twice or not at all',
  ended: 'runs ended twice, or not as succeeded',
  posted: 'alerts posted twice',
  written: 'changes of a record stored twice',
  different: 'tables that differ from the source',
  verified: 'verifications that found a difference, or did not end',
  open: 'workers that did not close',
  unseen: 'points whose statements were not seen',
} as const
type Wrong = keyof typeof WRONGS

/** The report of the script. */
export function linesOf(outcome: WorkerKills): readonly string[] {
  const { runs, slices, takeovers, killed, places, posts, compared, wrong, faults } = outcome
  const counts = (all: Readonly<Record<string, number>>) =>
    Object.entries(all)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  const kills = Object.values(killed).reduce((sum, count) => sum + count)
  return [
    `${kills} kills in ${runs} runs of ${slices} slices, ${takeovers} taken over`,
    `at: ${counts(killed)}; of a statement: ${counts(places)}`,
    `${posts} alerts posted, all tables of a team compared ${compared} times`,
    ...Object.entries(wrong).map(([name, count]) => `${count} ${WRONGS[name as Wrong]}`),
    ...faults.map((fault) => `WRONG: ${fault}`),
  ]
}

export async function killWorkers({ url, seed, kills, say }: WorkerKillOptions): Promise<WorkerKills> {
  const random = seeded(seed)
  const below = (count: number) => Math.floor(random() * count)
  const draw = (): Kill => {
    const point = POINTS[below(POINTS.length)]!
    const nth = 1 + below(DEEPEST[point])
    return { point, nth, place: PLACES[below(PLACES.length)]!, isOnlySession: below(8) === 0 }
  }
  await query(url, AUDIT)
  const emulator = await startEmulator({
    ...{ port: 0, patients: 25, forms: 3, packets: 2, documents: 0, responses: 0, pageSize: 5, seed },
  })
  const { base_url: baseUrl, teams: there } = emulator.environments[0]!
  const teams = there.slice(0, 2).map(({ name, api_key: apiKey, api_secret: apiSecret }, place) => {
    return {
      name: `team ${place}`,
      there: name,
      baseUrl,
      apiKey,
      apiSecret,
      apiVersion: 'v2.1',
      concurrency: 2,
    }
  })
  const killed = { claim: 0, page: 0, settle: 0, close: 0 }
  const places = { before: 0, amid: 0, after: 0 }
  let next = draw()
  let [seen, ofRun, total, lastRun] = [0, 0, 0, 0]

  /** Whether to kill at this statement. */
  function reached(point: Point): Kill | null {
    if (ofRun >= KILLS_A_RUN || total >= kills || point !== next.point) return null
    seen += 1
    if (seen < next.nth) return null
    const kill = next
    killed[point] += 1
    places[kill.place] += 1
    total += 1
    ofRun += 1
    lastRun = runs
    seen = 0
    next = draw()
    return kill
  }
  let [runs, compared] = [0, 0]
  const restore = watchStatements(reached, (worker, pid) => end(url, worker, pid))
  const logger = pino({ enabled: false })
  const options = { url, clock: systemClock, random, logger }
  const receiver = await openReceiver()
  const names = teams.map(({ name }) => name)
  const watches = Array.from({ length: WORKERS }, () =>
    openAlerts({
      ...{ url, clock: systemClock, logger, teams: names, version: '0.0.0', inboxDays: 30 },
      settings: { url: receiver.url, secret: null, inboxSeconds: 3_600, maxAgeHours: null },
      onPosted: () => {},
    }),
  )
  const workers = watches.map((alerts) =>
    openWorker({ ...options, teams, concurrency: 3, onRunEnded: async () => alerts.wake() }),
  )
  const wrong = {
    lost: 0,
    settled: 0,
    ended: 0,
    posted: 0,
    written: 0,
    different: 0,
    verified: 0,
    open: 0,
    unseen: 0,
  }
  const faults: string[] = []
  const note = (kind: Wrong, count: number, line: string) => {
    wrong[kind] += count
    if (count > 0) faults.push(line)
  }
  try {
    for (; total < kills && faults.length === 0; runs++) {
      ofRun = 0
      if (runs - lastRun > MAX_RUNS_WITHOUT_A_KILL) {
        note('unseen', 1, `no statement of a ${next.point} was seen: have the statements changed?`)
        break
      }
      for (const team of teams) change(emulator.control, team.there, below)
      const { runId, slices } = await planBackfill({
        ...{ ...options, teams, streams: STREAMS.map((name) => streamNamed(name)!), window: EVERYTHING },
        ...{ allowMassDelete: false, dry: false, migrated: true, onProgress: () => {} },
        signal: new AbortController().signal,
      })
      // A field that was not seen before: the run ends with an alert, which counts them.
      await query(url, DRIFT, [`field_${runId}`])
      await judgeRun(url, runId, slices, note)
      if (runs % COMPARED_EVERY === 0) say(`run ${runId}: ${total} kills so far, ${faults.length} faults`)
      if (runs % COMPARED_EVERY !== 0 && total < kills) continue
      const verified = await within(
        verify({
          ...{
            ...options,
            teams,
            streams: STREAMS.map((name) => streamNamed(name)!),
            repair: null,
            deep: false,
          },
          ...{ onProgress: () => {}, signal: new AbortController().signal },
        }),
      )
      if (verified?.equal !== true)
        note('verified', 1, `run ${runId}: verify ${verified?.status ?? 'did not end'}`)
      for (const team of teams) {
        const differing = await differences(url, team.name, emulator.control.world(team.there))
        compared += 1
        note('different', differing.length, `run ${runId}, ${team.name}: ${differing.join(', ')}`)
      }
    }
  } finally {
    for (const worker of workers) {
      const isClosed = await within(worker.close().then(() => true))
      note('open', isClosed ? 0 : 1, 'a worker did not close')
    }
    for (const watch of watches) await watch[Symbol.asyncDispose]()
    restore()
    await emulator.close()
    await receiver.close()
  }
  note('posted', receiver.twice(), `${receiver.twice()} alerts were posted twice`)
  const [sums] = await query<{ slices: number; takeovers: number }>(
    url,
    'select count(*)::int as slices, sum(takeovers)::int as takeovers from intake_ops.slices',
  )
  return { runs, ...sums!, killed, places, posts: receiver.posts(), compared, wrong, faults }
}

const DRIFT = `insert into intake_ops.drift (team_id, stream, path, type, count)
  select team_id, 'patients', $1, 'string', 1 from intake.teams where name = 'team 0'`

/** Tables of the streams that the runs read, which are not as a fresh load would leave them. */
async function differences(url: string, team: string, world: World): Promise<readonly string[]> {
  const ask = <Row extends object>(of: string, text: string, values?: unknown[]) =>
    query<Row>(of, text, values)
  const [stored, expected]: Tables[] = [await storedTables(url, team, ask), expectedOf(world)]
  return Object.keys(expected!).filter(
    (name) => TABLES.test(name) && String(stored![name]) !== String(expected![name]),
  )
}

/** Null if it takes too long. */
async function within<Result>(work: Promise<Result>): Promise<Result | null> {
  const late = new AbortController()
  const isLate = sleep(PATIENCE_MS, null, { signal: late.signal }).catch(() => null)
  return await Promise.race([work, isLate]).finally(() => late.abort())
}

/** Counts the posts of each alert at each of its marks. */
async function openReceiver() {
  const posted: string[] = []
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const { alerts } = JSON.parse(Buffer.concat(pieces).toString()) as AlertsDocument
    posted.push(...alerts.map(({ id, status, figures }) => JSON.stringify([id, status, figures])))
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    posts: () => posted.length,
    twice: () => posted.length - new Set(posted).size,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Each time a slice or a run ends, also if it had ended before. */
export const AUDIT = `
  create table public.ended (run_id bigint, slice_id bigint);
  create function public.note_slice() returns trigger language plpgsql as $$
    begin insert into public.ended values (new.run_id, new.slice_id); return null; end $$;
  create function public.note_run() returns trigger language plpgsql as $$
    begin insert into public.ended values (new.run_id, null); return null; end $$;
  create trigger audit after update on intake_ops.slices for each row
    when (new.state in ('done', 'canceled')) execute function public.note_slice();
  create trigger audit after update on intake_ops.runs for each row
    when (new.finished_at is not null) execute function public.note_run();`

/**
 * Waits for the end of the run. Each slice was settled once, the run ended once, and each record changed once at most:
 * the source stood still.
 */
async function judgeRun(
  url: string,
  runId: string,
  slices: number,
  note: (kind: Wrong, count: number, line: string) => void,
): Promise<void> {
  let [state, since] = ['', Date.now()]
  for (;;) {
    const [now] = await query<{ open: number; state: string }>(
      url,
      `select (count(*) filter (where state in ('pending', 'claimed')))::int as open,
         string_agg(state || epoch, ' ' order by slice_id) as state from intake_ops.slices where run_id = $1`,
      [runId],
    )
    if (now!.open === 0) break
    if (now!.state !== state) [state, since] = [now!.state, Date.now()]
    if (Date.now() - since > PATIENCE_MS)
      return note('lost', now!.open, `run ${runId} did not end: ${now!.state}`)
    await sleep(20)
  }
  const [row] = await query<{ status: string; error: string; ends: number; settled: number; once: number }>(
    url,
    `select status, error,
       (select count(*)::int from public.ended e where e.run_id = $1 and slice_id is null) as ends,
       (select count(*)::int from public.ended e where e.run_id = $1 and slice_id is not null) as settled,
       (select count(distinct slice_id)::int from public.ended e where e.run_id = $1) as once
     from intake_ops.runs where run_id = $1`,
    [runId],
  )
  const { status, error, ends, settled, once } = row!
  const odd = slices - once + settled - once
  note('settled', odd, `run ${runId}: ${settled} settled, ${once} of ${slices} slices`)
  const isEnded = ends === 1 && status === 'succeeded' && error === null
  note('ended', isEnded ? 0 : 1, `run ${runId} ended ${ends} times, ${status}: ${error}`)
  const twice = await query<{ stream: string; id: string }>(
    url,
    `select stream, id from intake_raw.record_history
     where superseded_at >= (select started_at from intake_ops.runs where run_id = $1)
     group by team_id, stream, id having count(*) > 1`,
    [runId],
  )
  note('written', twice.length, `run ${runId} changed twice: ${JSON.stringify(twice.slice(0, 3))}`)
}

type Control = Awaited<ReturnType<typeof startEmulator>>['control']

function change(control: Control, team: string, below: (count: number) => number): void {
  const { patients, forms } = control.world(team)
  for (let time = 0; time < 3; time++)
    control.updatePatient(
      patients.at(patients.indexAt(below(patients.size)))!.id,
      { first_name: `Name ${below(1e6)}` },
      team,
    )
  control.renameForm(forms.at(forms.indexAt(below(forms.size)))!.id, `Form ${below(1e6)}`, team)
  control.createPatient({ first_name: `New ${below(1e6)}` }, team)
  control.deletePatient(patients.at(patients.indexAt(below(patients.size)))!.id, team)
}

/** First the session that holds the lock of the worker: it can settle nothing that broke with the others. */
async function end(url: string, worker: string, pid: number | null): Promise<void> {
  await query(
    url,
    `select pg_terminate_backend(pid, 5000) from (
       select pid from pg_stat_activity
       where datname = current_database() and right(application_name, 15) = 'worker ' || $1 and ($2::int is null or pid = $2)
       order by application_name like 'intake-sync work %' desc offset 0
     ) as session`,
    [worker, pid],
  )
}

const RealClient = pg.Client

/** Statements of workers pass here. The result restores Postgres's own client. */
function watchStatements(
  reached: (point: Point) => Kill | null,
  strike: (worker: string, pid: number | null) => Promise<void>,
): () => void {
  class WatchedClient extends RealClient {
    readonly #name: string
    /** Of the current transaction. */
    #point: Point | null = null

    constructor(config: pg.ClientConfig) {
      super(config)
      this.#name = config.application_name ?? ''
    }

    // biome-ignore lint/suspicious/noExplicitAny: pg's own signature has a dozen forms
    override query(...words: any[]): any {
      const send = () => (super.query as (...all: unknown[]) => unknown)(...words)
      const worker = /worker (\w{8})$/.exec(this.#name)?.[1]
      const text: unknown = typeof words[0] === 'string' ? words[0] : words[0]?.text
      if (worker === undefined || typeof text !== 'string') return send()
      const point = this.#pointOf(text)
      const kill = point === null ? null : reached(point)
      if (kill === null) return send()
      const isLoading = this.#name.startsWith('intake-sync load')
      const pid = (this as unknown as { processID: number }).processID
      const act = () => strike(worker, isLoading && kill.isOnlySession ? pid : null)
      const isPlain = typeof words[0]?.submit !== 'function' && typeof words.at(-1) !== 'function'
      if (kill.place === 'before' && isPlain) return act().then(send)
      if (kill.place === 'after' && isPlain) return (send() as Promise<unknown>).finally(act)
      void act()
      return send()
    }

    #pointOf(text: string): Point | null {
      if (!this.#name.startsWith('intake-sync work ')) return 'page'
      if (/set state = 'claimed'/.test(text)) this.#point = 'claim'
      else if (/update intake_ops\.runs set status/.test(text)) this.#point = 'close'
      else if (/select from intake_ops\.slices where slice_id/.test(text)) this.#point = 'settle'
      const point = this.#point
      if (/^\s*(?:commit|rollback)/i.test(text)) this.#point = null
      return point
    }
  }
  Object.assign(pg, { Client: WatchedClient })
  return () => void Object.assign(pg, { Client: RealClient })
}
