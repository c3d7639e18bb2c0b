/**
 * Kills workers at chosen points while they execute planned runs: as a claim, a page, a settle or the end of a run is
 * stored, before a statement, after it, or while Postgres executes it. All sessions of the worker end, as they do when its
 * process is killed; it starts again as another worker.
 *
 * Invariant: the seed chooses the points and what changes at the service; triggers of the test count what was stored.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { planBackfill } from '../../src/extract/planned-backfill.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { openWorker } from '../../src/extract/work.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { seeded } from './crash.ts'
import { query } from './query.ts'

const POINTS = ['claim', 'page', 'settle', 'close'] as const
type Point = (typeof POINTS)[number]
const PLACES = ['before', 'amid', 'after'] as const
/** The last statement of each point at which a worker may be killed. */
const DEEPEST = { claim: 8, page: 60, settle: 12, close: 5 } as const
/** A slice that ten workers lost is given up, which is no loss; so fewer are killed in a run. */
const KILLS_A_RUN = 8
const PATIENCE_MS = 60_000
const STREAMS = ['patients', 'forms', 'packets'] as const
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
  /** Faults in the tables of the team. */
  readonly check: (team: string, world: World) => Promise<readonly string[]>
}

export interface WorkerKills {
  readonly runs: number
  readonly slices: number
  readonly takeovers: number
  readonly killed: Readonly<Record<Point, number>>
  readonly faults: readonly string[]
}

export async function killWorkers({ url, seed, kills, say, check }: WorkerKillOptions): Promise<WorkerKills> {
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
  let next = draw()
  let [seen, ofRun, total] = [0, 0, 0]

  /** Whether to kill at this statement. */
  function reached(point: Point): Kill | null {
    if (ofRun >= KILLS_A_RUN || total >= kills || point !== next.point) return null
    seen += 1
    if (seen < next.nth) return null
    const kill = next
    killed[point] += 1
    total += 1
    ofRun += 1
    seen = 0
    next = draw()
    return kill
  }
  const restore = watchStatements(reached, (worker, pid) => end(url, worker, pid))
  const options = { url, clock: systemClock, random, logger: pino({ enabled: false }) }
  const workers = Array.from({ length: WORKERS }, () =>
    openWorker({ ...options, teams, concurrency: 3, onRunEnded: async () => {} }),
  )
  const faults: string[] = []
  let runs = 0
  try {
    for (; total < kills && faults.length === 0; runs++) {
      ofRun = 0
      for (const team of teams) change(emulator.control, team.there, below)
      const { runId, slices } = await planBackfill({
        ...{ ...options, teams, streams: STREAMS.map((name) => streamNamed(name)!), window: EVERYTHING },
        ...{ allowMassDelete: false, dry: false, migrated: true, onProgress: () => {} },
        signal: new AbortController().signal,
      })
      faults.push(...(await judged(url, runId, slices)))
      if (runs % 10 === 0) say(`run ${runId}: ${total} kills so far, ${faults.length} faults`)
      if (runs % 10 !== 0 && total < kills) continue
      for (const team of teams)
        faults.push(
          ...(await check(team.name, emulator.control.world(team.there))).map(
            (each) => `run ${runId}: ${each}`,
          ),
        )
    }
  } finally {
    for (const worker of workers) await worker.close()
    restore()
    await emulator.close()
  }
  const [sums] = await query<{ slices: number; takeovers: number }>(
    url,
    'select count(*)::int as slices, sum(takeovers)::int as takeovers from intake_ops.slices',
  )
  return { runs, ...sums!, killed, faults }
}

/** Each time a slice or a run ends, also if it had ended before. */
const AUDIT = `
  create table public.ended (run_id bigint, slice_id bigint);
  create function public.note_slice() returns trigger language plpgsql as $$
    begin insert into public.ended values (new.run_id, new.slice_id); return null; end $$;
  create function public.note_run() returns trigger language plpgsql as $$
    begin insert into public.ended values (new.run_id, null); return null; end $$;
  create trigger audit after update on intake_ops.slices for each row
    when (new.state in ('done', 'canceled')) execute function public.note_slice();
  create trigger audit after update on intake_ops.runs for each row
    when (new.finished_at is not null) execute function public.note_run();`

/** Waits for the end of the run. Each slice was settled once, and the run ended once, or a fault says what was not. */
async function judged(url: string, runId: string, slices: number): Promise<readonly string[]> {
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(20)) {
    const open = await query(
      url,
      `select from intake_ops.slices where run_id = $1 and state in ('pending', 'claimed') limit 1`,
      [runId],
    )
    if (open.length === 0) break
    if (Date.now() > until) return [`run ${runId} did not end: a slice is lost`]
  }
  const [row] = await query<{
    status: string
    error: string | null
    ends: number
    settled: number
    once: number
  }>(
    url,
    `select status, error,
       (select count(*)::int from public.ended e where e.run_id = $1 and slice_id is null) as ends,
       (select count(*)::int from public.ended e where e.run_id = $1 and slice_id is not null) as settled,
       (select count(distinct slice_id)::int from public.ended e where e.run_id = $1) as once
     from intake_ops.runs where run_id = $1`,
    [runId],
  )
  const expected = { status: 'succeeded', error: null, ends: 1, settled: slices + 1, once: slices + 1 }
  const [is, should] = [JSON.stringify(row), JSON.stringify(expected)]
  return is === should ? [] : [`run ${runId} is ${is}, not ${should}`]
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
      if (/with busy as/.test(text)) this.#point = 'claim'
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
