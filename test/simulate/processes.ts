/**
 * The shipped code as simulated processes: `serve` (inbox, drain, refetcher) and `backfill`, with the scheduler's clock,
 * the simulated network and a random function of the seed.
 *
 * Invariant: an ended process does nothing more; Postgres detects its end by itself.
 */
import pg from 'pg'
import pino from 'pino'
import { type BackfillSummary, backfill } from '../../src/extract/backfill.ts'
import type { TeamSource } from '../../src/extract/backfill-options.ts'
import { openRefetcher, type Refetcher } from '../../src/extract/conflicts/refetcher.ts'
import { EVERYTHING, type WindowOptions } from '../../src/extract/reading/window.ts'
import { type Drain, openDrain } from '../../src/ingest/drain/drain.ts'
import { LIMITS } from '../../src/ingest/http/in-flight.ts'
import { type Inbox, openInbox } from '../../src/ingest/inbox/inbox.ts'
import { erase } from '../../src/operate/erase/erase.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { SimulatedClient } from './client.ts'
import type { SimulatedStream } from './history.ts'
import { type NetworkOptions, openNetwork } from './network.ts'
import type { Actor } from './scheduler.ts'
import { ORIGIN, VERSION } from './service.ts'
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
}

export interface SimulatedTeam {
  readonly team: { readonly name: string; readonly teamId: number }
  readonly network: NetworkOptions
}

export interface Processes {
  /** `ready` resolves when it receives events. */
  serve(): { readonly actor: Actor; readonly ready: Promise<Serve> }
  backfill(actor: Actor, kind: 'everything' | 'new'): Promise<BackfillSummary>
  /** Compares each team's tables with its source. */
  verify(actor: Actor): Promise<void>
  erase(actor: Actor, patient: { readonly teamId: number; readonly id: string }): Promise<void>
  start(name: string): Actor
  kill(actor: Actor): void
  /** Ends all, and restores Postgres's own client. */
  close(): void
  readonly living: readonly Actor[]
}

/** The steps of `intake-sync backfill` without options. */
const USUAL: WindowOptions = { lookbackDays: 2, sweepDays: 7, full: false, since: null }

const RealClient = pg.Client

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

  // The shipped code reaches Postgres only through here.
  Object.assign(pg, {
    Client: class extends SimulatedClient {
      constructor(config: pg.ClientConfig) {
        const name = new URL(config.connectionString!).searchParams.get('process')!
        super(warehouse, actors.get(name)!, config)
      }
    },
  })

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
    const actor = { name: `${name} ${actors.size + 1}`, alive: true }
    actors.set(actor.name, actor)
    running.add(actor)
    return actor
  }

  function kill(actor: Actor): void {
    actor.alive = false
    running.delete(actor)
    for (const client of [...warehouse.clients]) if (client.actor === actor) client.die()
  }

  return {
    get living() {
      return [...running]
    },
    start,
    kill,
    close() {
      for (const actor of [...running]) kill(actor)
      Object.assign(pg, { Client: RealClient })
    },
    serve() {
      const actor = start('serve')
      const clock = scheduler.clockOf(actor)
      const url = urlOf(actor)
      const refetcher = openRefetcher({
        url,
        teams: teams.map((each) => ({ ...source(actor, each), teamId: each.team.teamId })),
        clock,
        random: choice.share,
        logger,
        watch,
      })
      const drain = openDrain({
        url,
        teams: teams.map(({ team }) => ({ ...team, apiVersion: VERSION })),
        clock,
        logger,
        watch,
        onRefetchRequested: refetcher.wake,
      })
      const storing = openInbox({ url, clock, logger, watch, onStored: drain.wake, limits: LIMITS })
      return { actor, ready: storing.then((inbox) => ({ actor, inbox, drain, refetcher })) }
    },
    async verify(actor) {
      try {
        await verify({
          url: urlOf(actor),
          teams: teams.map((each) => source(actor, each)),
          streams: listed,
          repair: null,
          deep: false,
          clock: scheduler.clockOf(actor),
          random: choice.share,
          logger,
          signal: new AbortController().signal,
          onProgress: () => {},
        })
      } finally {
        running.delete(actor)
      }
    },
    async erase(actor, patient) {
      try {
        await erase({ url: urlOf(actor), patient, forget: false, clock: scheduler.clockOf(actor) })
      } finally {
        running.delete(actor)
      }
    },
    async backfill(actor, kind) {
      try {
        return await backfill({
          url: urlOf(actor),
          teams: teams.map((each) => source(actor, each)),
          streams: listed,
          allowMassDelete: false,
          window: kind === 'everything' ? EVERYTHING : USUAL,
          dry: false,
          migrated: true,
          clock: scheduler.clockOf(actor),
          random: choice.share,
          logger,
          signal: new AbortController().signal,
          onProgress: () => {},
        })
      } finally {
        running.delete(actor)
      }
    },
  }
}
