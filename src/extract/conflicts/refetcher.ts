/**
 * Fetches the records that events left in conflict or partial, for as long as it is open (intake_ops.refetches).
 *
 * Invariant: a team whose service fails, or refuses the credentials, delays no other team, and a stream whose records
 * cannot be fetched delays no other stream. Several processes may do this at the same time.
 */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { type Client, openClient } from '../../api/client.ts'
import { ApiError } from '../../api/errors.ts'
import { openServiceClock, type ServiceClock } from '../../api/service-clock.ts'
import type { Clock } from '../../core/clock.ts'
import { openNotifier } from '../../core/clock.ts'
import type { StreamName } from '../../core/envelope.ts'
import type { IntakeError } from '../../core/errors.ts'
import { openLoaders } from '../../load/merge/loaders.ts'
import { ALL_STREAMS, ENDPOINTS } from '../../streams/catalogue.ts'
import { defectIn, openDefectReports } from '../../warehouse/defects.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { TeamSource } from '../backfill-options.ts'
import type { FailedInRow } from '../source.ts'
import { teamsDue } from './due-rows.ts'
import { refetchRound } from './round.ts'

export interface RefetchWatch {
  /** Records fetched by id: how many requests, and how many of the records were gone. */
  refetched(team: string, requests: number, gone: number): void
  /** An error of our own code. Records are then fetched and stored one by one, or no record is fetched for a second. */
  defect(kind: string): void
}

export interface RefetcherOptions {
  /** Of the warehouse. */
  readonly url: string
  /** Of the same team several clients may share one budget by its `limiter`. */
  readonly teams: readonly (TeamSource & { readonly teamId: number })[]
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly watch: RefetchWatch
  readonly pollMs?: number
  readonly version?: string
}

export interface Refetcher extends AsyncDisposable {
  wake(): void
  /** Resolves when no record of these teams is due or about to be, except of streams that stopped. */
  idle(): Promise<void>
  /** Why records cannot be fetched; null while they can. */
  trouble(): string | null
  close(): Promise<void>
}

/** Pause of a stream that stopped until a person acts. */
const STOPPED_MS = 60_000
/** Clocks drift: after this time the offset between the service's clock and ours is measured anew. */
const CLOCK_MICROS = 600_000_000
/** Sessions of all teams, two per team: a team whose records are locked leaves the rest to the others. */
const LOADERS = 4
/** Longer than the pause before a conflicting record is requested. */
const SOON_MS = 5_000

export function openRefetcher(options: RefetcherOptions): Refetcher {
  const { url, clock, random, logger, watch, pollMs = 500 } = options
  const version = options.version === undefined ? {} : { version: options.version }
  const closing = new AbortController()
  setMaxListeners(0, closing.signal)
  const notifier = openNotifier(clock)
  const loaders = openLoaders({ url, clock, total: LOADERS })
  const streams = ALL_STREAMS.filter((stream) => stream.one !== null).map((stream) => stream.name)
  const workers = options.teams.map((team) => {
    const { name: _name, teamId: _teamId, timezone: _timezone, ...connection } = team
    return openWorker(
      team,
      openClient({
        ...connection,
        ...version,
        endpoints: ENDPOINTS,
        ...{ clock, random, logger, signal: closing.signal },
      }),
      clock,
    )
  })
  const busy = new Set<Promise<void>>()
  let lost: string | null = null

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      const seen = notifier.count
      try {
        const waiting = workers.filter((worker) => !worker.busy)
        const due = await loaders.run(({ db }) => teamsDue(db, waiting.map(openTo)))
        for (const worker of waiting) if (due.includes(worker.team.teamId)) start(worker)
        lost = null
      } catch (error) {
        lost = warehouseError(error).message
      }
      await notifier.wait(seen, pollMs)
    }
    await Promise.all(busy)
  }

  function start(worker: TeamWorker): void {
    worker.busy = true
    const round = oneRound(worker).finally(() => {
      worker.busy = false
      busy.delete(round)
      notifier.notify()
    })
    busy.add(round)
  }

  async function oneRound(worker: TeamWorker): Promise<void> {
    const { team, client } = worker
    const meter = { requests: 0, throttled: 0 }
    const reportDefect = openDefectReports({ logger, onDefect: ({ kind }) => watch.defect(kind) })
    try {
      const { failedFetches } = worker
      const roundClient = {
        client,
        serviceClock: worker.serviceClock(),
        meter,
        failedFetches,
        signal: closing.signal,
      }
      const place = { teamId: team.teamId, loaders: loaders.ofTeam(team.teamId), clock, reportDefect }
      const names = openTo(worker).streams
      const { gone, failure, stopped, records } = await refetchRound(place, roundClient, names)
      if (failure !== null && worker.failure === null)
        logger.warn({ team: team.name }, `records cannot be fetched: ${failure}`)
      worker.failure = failure
      if (records > 0) for (const name of names) worker.stopped.delete(name)
      for (const [name, error] of stopped) stop(worker, name, error)
      if (meter.requests > 0) watch.refetched(team.name, meter.requests, gone)
    } catch (error) {
      if (closing.signal.aborted) return
      const { code, message } = warehouseError(error)
      worker.pausedUntil = clock.now() + 1_000_000
      worker.failure = message
      logger.error({ team: team.name, code }, `records cannot be fetched: ${message}`)
      // Other failures are mostly of the warehouse, which would have to be waited for.
      if (defectIn(error) === null) return
      const met = { teamIds: [team.teamId], consequence: 'no record is fetched for a second' }
      await loaders.run((session) => reportDefect(session, error, met)).catch(() => {})
    }
  }

  /** Refused credentials stop every stream of the team; any other error stops its own stream. */
  function stop({ stopped, team }: TeamWorker, stream: StreamName, error: IntakeError): void {
    const isRefused = error instanceof ApiError && (error.status === 401 || error.status === 403)
    const reason = error.hint === undefined ? error.message : `${error.message} — ${error.hint}`
    const until = clock.now() + STOPPED_MS * 1_000
    for (const name of isRefused ? streams : [stream]) stopped.set(name, { until, reason })
    logger.error({ team: team.name, stream, code: error.code }, `records cannot be fetched: ${reason}`)
  }

  /** The streams of a team whose records may be fetched now. */
  function openTo({ team, stopped, pausedUntil }: TeamWorker) {
    const now = clock.now()
    const open = streams.filter((name) => now >= (stopped.get(name)?.until ?? pausedUntil))
    return { teamId: team.teamId, streams: now >= pausedUntil ? open : [] }
  }

  const running = run()

  async function close(): Promise<void> {
    closing.abort(new Error('the refetcher is closed'))
    notifier.notify()
    await Promise.all([running, loaders.close()])
    await Promise.all(workers.map((worker) => worker.client.close()))
  }

  return {
    wake: notifier.notify,
    async idle() {
      while (!closing.signal.aborted) {
        const wanted = workers.map(({ team, stopped }) => {
          const open = streams.filter((name) => clock.now() >= (stopped.get(name)?.until ?? 0))
          return { teamId: team.teamId, streams: open }
        })
        const due = await loaders.run(({ db }) => teamsDue(db, wanted, SOON_MS))
        if (busy.size === 0 && due.length === 0) return
        notifier.notify()
        await clock.sleep(50, closing.signal).catch(() => {})
      }
    },
    trouble: () => {
      const failures = workers.flatMap(({ failure, stopped }) => [
        ...(failure === null ? [] : [failure]),
        ...[...stopped.values()].map(({ reason }) => reason),
      ])
      return lost ?? failures[0] ?? null
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Fetches the records of one team. */
interface TeamWorker {
  readonly team: { readonly name: string; readonly teamId: number }
  readonly client: Client
  serviceClock(): ServiceClock
  busy: boolean
  /** In the clock's microseconds, after a failure of the warehouse. */
  pausedUntil: number
  /** Streams that stopped until a person acts, and when they are tried again. */
  readonly stopped: Map<StreamName, { readonly until: number; readonly reason: string }>
  readonly failedFetches: Map<StreamName, FailedInRow>
  failure: string | null
}

function openWorker(team: TeamWorker['team'], client: Client, clock: Clock): TeamWorker {
  let measured = { at: clock.now(), serviceClock: openServiceClock() }
  return {
    team,
    client,
    serviceClock() {
      if (clock.now() - measured.at > CLOCK_MICROS)
        measured = { at: clock.now(), serviceClock: openServiceClock() }
      return measured.serviceClock
    },
    busy: false,
    pausedUntil: 0,
    stopped: new Map(),
    failedFetches: new Map(),
    failure: null,
  }
}
