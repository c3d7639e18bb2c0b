/**
 * Asks the service for the records that events left in doubt, for as long as it is open (intake_ops.refetches).
 *
 * Invariant: a team whose service fails, or refuses the credentials, holds up no other. Several processes may do this
 * side by side.
 */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { type Client, openClient } from '../../api/client.ts'
import { ApiError } from '../../api/errors.ts'
import { openServiceClock, type ServiceClock } from '../../api/service-clock.ts'
import { openBell } from '../../core/bell.ts'
import type { Clock } from '../../core/clock.ts'
import { openLoaders } from '../../load/loaders.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { TeamSource } from '../backfill-options.ts'
import { teamsDue } from './due-rows.ts'
import { refetchRound } from './round.ts'

export interface RefetchWatch {
  /** Records fetched by id: how many requests, and how many of the records were gone. */
  refetched(team: string, requests: number, gone: number): void
}

export interface RefetcherOptions {
  /** Of the warehouse. */
  readonly url: string
  /** Of the same team several clients may share one budget by its `gate`. */
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
  /** Resolves when no record of these teams is due or about to be, but of those whose credentials are refused. */
  idle(): Promise<void>
  /** Why records are not fetched; null while they are. */
  trouble(): string | null
  close(): Promise<void>
}

/** Pause of a team whose credentials are refused: a person has to act. */
const REFUSED_MS = 60_000
/** Clocks drift: after this the offset between the service's and ours is measured anew. */
const CLOCK_MICROS = 600_000_000
/** Sessions of all teams, two of one: a team whose records are locked leaves the rest to the others. */
const LOADERS = 4
/** Longer than the pause before a contested record is asked for. */
const SOON_MS = 5_000

export function openRefetcher(options: RefetcherOptions): Refetcher {
  const { url, clock, random, logger, watch, pollMs = 500 } = options
  const version = options.version === undefined ? {} : { version: options.version }
  const closing = new AbortController()
  setMaxListeners(0, closing.signal)
  const bell = openBell(clock)
  const loaders = openLoaders({ url, clock, total: LOADERS })
  const streams = ALL_STREAMS.filter((stream) => stream.one !== null).map((stream) => stream.name)
  const desks = options.teams.map((team) => {
    const { name: _name, teamId: _teamId, timezone: _timezone, ...connection } = team
    return openDesk(
      team,
      openClient({ ...connection, ...version, clock, random, logger, signal: closing.signal }),
      clock,
    )
  })
  const busy = new Set<Promise<void>>()
  let lost: string | null = null

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      const heard = bell.rung
      try {
        const waiting = desks.filter((desk) => !desk.busy && clock.now() >= desk.pausedUntil)
        const due = waiting.length === 0 ? [] : await loaders.run(({ db }) => teamsDue(db, idsOf(waiting)))
        for (const desk of waiting) if (due.includes(desk.team.teamId)) start(desk)
        lost = null
      } catch (error) {
        lost = warehouseError(error).message
      }
      await bell.wait(heard, pollMs)
    }
    await Promise.all(busy)
  }

  function start(desk: Desk): void {
    desk.busy = true
    const round = oneRound(desk).finally(() => {
      desk.busy = false
      busy.delete(round)
      bell.ring()
    })
    busy.add(round)
  }

  async function oneRound(desk: Desk): Promise<void> {
    const { team, client } = desk
    const meter = { requests: 0, throttled: 0 }
    try {
      const asked = { client, serviceClock: desk.serviceClock(), meter }
      const own = { teamId: team.teamId, loaders: loaders.ofTeam(team.teamId), clock }
      const { gone, failure } = await refetchRound(own, asked, streams)
      if (failure !== null && desk.failure === null)
        logger.warn({ team: team.name }, `records cannot be fetched: ${failure}`)
      desk.failure = failure
      if (meter.requests > 0) watch.refetched(team.name, meter.requests, gone)
    } catch (error) {
      if (closing.signal.aborted) return
      const told = warehouseError(error)
      const isRefused = error instanceof ApiError && (error.status === 401 || error.status === 403)
      desk.pausedUntil = clock.now() + (isRefused ? REFUSED_MS : 1_000) * 1_000
      desk.isRefused = isRefused
      desk.failure = told.message
      logger.error({ team: team.name, code: told.code }, `records cannot be fetched: ${told.message}`)
    }
  }

  const running = run()

  async function close(): Promise<void> {
    closing.abort(new Error('the refetcher is closed'))
    bell.ring()
    await running
    await Promise.all(desks.map((desk) => desk.client.close()))
    await loaders.close()
  }

  return {
    wake: bell.ring,
    async idle() {
      while (!closing.signal.aborted) {
        const ids = idsOf(desks.filter((desk) => !(desk.isRefused && clock.now() < desk.pausedUntil)))
        const due = await loaders.run(({ db }) => teamsDue(db, ids, SOON_MS))
        if (busy.size === 0 && due.length === 0) return
        bell.ring()
        await clock.sleep(50, closing.signal).catch(() => {})
      }
    },
    trouble: () => lost ?? desks.find((desk) => desk.failure !== null)?.failure ?? null,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Where one team's records are asked for. */
interface Desk {
  readonly team: { readonly name: string; readonly teamId: number }
  readonly client: Client
  serviceClock(): ServiceClock
  busy: boolean
  pausedUntil: number
  isRefused: boolean
  failure: string | null
}

function openDesk(team: Desk['team'], client: Client, clock: Clock): Desk {
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
    isRefused: false,
    failure: null,
  }
}

function idsOf(desks: readonly Desk[]): readonly number[] {
  return desks.map((desk) => desk.team.teamId)
}
