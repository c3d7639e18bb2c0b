/**
 * The shipped code as simulated processes: `serve` (inbox, drain, refetcher), `backfill`, and workers with the runs that
 * are planned for them; with the scheduler's clock and timers, the simulated network and a random function of the seed.
 *
 * Invariant: an ended process does nothing more; Postgres detects its end by itself.
 */
import pg from 'pg'
import pino from 'pino'
import { type BackfillSummary, backfill } from '../../src/extract/backfill.ts'
import type { TeamSource } from '../../src/extract/backfill-options.ts'
import { openRefetcher, type Refetcher } from '../../src/extract/conflicts/refetcher.ts'
import { type PlannedRun, planBackfill } from '../../src/extract/planned-backfill.ts'
import { EVERYTHING, type WindowOptions } from '../../src/extract/reading/window.ts'
import { openWorker, type Worker } from '../../src/extract/work.ts'
import { type Drain, openDrain } from '../../src/ingest/drain/drain.ts'
import { LIMITS } from '../../src/ingest/http/in-flight.ts'
import { type Inbox, openInbox } from '../../src/ingest/inbox/inbox.ts'
import { cancelRun } from '../../src/load/cancel-run.ts'
import { erase } from '../../src/operate/erase/erase.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { SimulatedClient } from './client.ts'
import type { SimulatedStream } from './history.ts'
import { type NetworkOptions, openNetwork } from './network.ts'
import type { Actor } from './scheduler.ts'
import { ORIGIN, VERSION } from './service.ts'
import { asActor, replaceTimers } from './timers.ts'
import type { SimulatedWarehouse } from './warehouse.ts'

const logger = pino({ enabled: false })

export interface Serve {
  readonly actor: Actor
  readonly inbox: Inbox
  readonly drain: Drain
  readonly refetcher: Refetcher
}

export interface ProcessOptions {
  readonly teams: readonly SimulatedTeam[]
  readonly streams: readonly SimulatedStream[]
  readonly warehouse: SimulatedWarehouse
  readonly concurrency: number
  readonly pageSize: number | undefined
  readonly note: (fault: string) => void
  /** Of the clock of a process that starts. */
  readonly skewMicros: () => number
}

export interface SimulatedTeam {
  readonly team: { readonly name: string; readonly teamId: number }
  readonly network: NetworkOptions
}

export interface Processes {
  /** `ready` resolves when it receives events. */
  serve(): { readonly actor: Actor; readonly ready: Promise<Serve> }
  backfill(actor: Actor, kind: Kind): Promise<BackfillSummary>
  work(concurrency: number): { readonly actor: Actor; readonly worker: Worker }
  /** Plans a run of some teams and streams for the workers. */
  plan(actor: Actor, kind: Kind, parts: Parts): Promise<PlannedRun>
  cancel(actor: Actor, runId: number): Promise<void>
  /** Compares each team's tables with its source. */
  verify(actor: Actor): Promise<void>
  erase(actor: Actor, patient: { readonly teamId: number; readonly id: string }): Promise<void>
  start(name: string): Actor
  kill(actor: Actor): void
  /** Ends all, and restores Postgres's own client. */
  close(): void
  readonly living: readonly Actor[]
}

export type Kind = 'everything' | 'new'

/** Places among the teams and streams of the seed. */
export interface Parts {
  readonly team: (place: number, teams: number) => boolean
  readonly stream: (place: number, streams: number) => boolean
}

/** The steps of `intake-sync backfill` without options. */
const USUAL: WindowOptions = { lookbackDays: 2, sweepDays: 7, full: false, since: null }

const RealClient = pg.Client
const RealPool = pg.Pool

export function openProcesses(options: ProcessOptions): Processes {
  const { teams, warehouse, concurrency, pageSize, note } = options
  const { scheduler, choice } = warehouse
  const watch = {
    committed() {},
    drained() {},
    refetched() {},
    defect: (kind: string) => note(`a defect of the code: ${kind}`),
  }
  const actors = new Map<string, Actor>()
  const running = new Set<Actor>()
  const listed = options.streams.map((name) => streamNamed(name)!).filter((stream) => stream.list !== null)

  const timers = replaceTimers(scheduler)
  // The shipped code reaches Postgres only through here.
  const Client = class extends SimulatedClient {
    constructor(config: pg.ClientConfig) {
      const name = new URL(config.connectionString!).searchParams.get('process')!
      super(warehouse, actors.get(name)!, config)
    }
  }
  const Pool = class extends RealPool {
    constructor(config: pg.PoolConfig) {
      super({ ...config, Client: Client as unknown as typeof pg.Client } as pg.PoolConfig)
    }
  }
  Object.assign(pg, { Client, Pool })

  const urlOf = (actor: Actor) => `postgres://simulated/warehouse?process=${encodeURIComponent(actor.name)}`

  function source(actor: Actor, { team, network }: SimulatedTeam): TeamSource {
    return {
      name: team.name,
      baseUrl: ORIGIN,
      apiKey: 'key',
      apiSecret: 'secret',
      apiVersion: VERSION,
      concurrency,
      wire: openNetwork(network, actor),
      ...(pageSize === undefined ? {} : { pageSize }),
    }
  }

  function start(name: string): Actor {
    const actor: Actor = {
      ...{ name: `${name} ${actors.size + 1}`, alive: true, skewMicros: options.skewMicros() },
      ...{ isStopped: false, cutOffSince: null, isOffline: false },
    }
    actors.set(actor.name, actor)
    running.add(actor)
    return actor
  }

  function kill(actor: Actor): void {
    actor.alive = false
    running.delete(actor)
    for (const client of [...warehouse.clients]) if (client.actor === actor) client.die()
  }

  const common = (actor: Actor) => ({
    ...{ url: urlOf(actor), clock: scheduler.clockOf(actor), random: choice.share, logger },
  })

  const run = (actor: Actor, kind: Kind) => ({
    ...common(actor),
    teams: teams.map((each) => source(actor, each)),
    streams: listed,
    ...{ allowMassDelete: false, window: kind === 'everything' ? EVERYTHING : USUAL, dry: false },
    ...{ migrated: true, signal: new AbortController().signal, onProgress: () => {} },
  })

  /** The process ends with its work. */
  async function until<Result>(actor: Actor, work: () => Promise<Result>): Promise<Result> {
    try {
      return await asActor(actor, work)
    } finally {
      running.delete(actor)
    }
  }

  return {
    get living() {
      return [...running]
    },
    start,
    kill,
    close() {
      for (const actor of [...running]) kill(actor)
      Object.assign(pg, { Client: RealClient, Pool: RealPool })
      timers[Symbol.dispose]()
    },
    serve: () => {
      const actor = start('serve')
      const clock = scheduler.clockOf(actor)
      const url = urlOf(actor)
      return asActor(actor, () => {
        const refetcher = openRefetcher({
          url,
          teams: teams.map((each) => ({ ...source(actor, each), teamId: each.team.teamId })),
          ...{ clock, random: choice.share, logger, watch },
        })
        const drain = openDrain({
          url,
          teams: teams.map(({ team }) => ({ ...team, apiVersion: VERSION })),
          ...{ clock, logger, watch, onRefetchRequested: refetcher.wake },
        })
        const storing = openInbox({ url, clock, logger, watch, onStored: drain.wake, limits: LIMITS })
        return { actor, ready: storing.then((inbox) => ({ actor, inbox, drain, refetcher })) }
      })
    },
    work(concurrency) {
      const actor = start('worker')
      const worker = asActor(actor, () =>
        openWorker({
          ...common(actor),
          teams: teams.map((each) => source(actor, each)),
          concurrency,
          onRunEnded: async () => {},
        }),
      )
      return { actor, worker }
    },
    plan: (actor, kind, { team, stream }) =>
      until(actor, () =>
        planBackfill({
          ...run(actor, kind),
          teams: teams.flatMap((each, place) => (team(place, teams.length) ? [source(actor, each)] : [])),
          streams: listed.filter((_, place) => stream(place, listed.length)),
        }),
      ),
    cancel: (actor, runId) =>
      until(actor, async () => {
        await cancelRun({ url: urlOf(actor), clock: scheduler.clockOf(actor), forMs: 5_000 }, runId)
      }),
    verify: (actor) =>
      until(actor, async () => {
        await verify({
          ...common(actor),
          teams: teams.map((each) => source(actor, each)),
          streams: listed,
          ...{ repair: null, deep: false, signal: new AbortController().signal, onProgress: () => {} },
        })
      }),
    erase: (actor, patient) =>
      until(actor, async () => {
        await erase({ url: urlOf(actor), patient, forget: false, clock: scheduler.clockOf(actor) })
      }),
    backfill: (actor, kind) => until(actor, () => backfill(run(actor, kind))),
  }
}
