/**
 * Ingester, drain with refetches, worker, schedule and admin server in one process, over a migrated warehouse.
 *
 *     admin ─► housekeeping ─► refetcher, drain ─► ingester ─► alerts ─► worker ─► schedule     closed in reverse
 *
 * Invariant: each part works without the others. Closing stops accepting requests, commits and answers those that were
 * accepted, and finishes the current batches. Events that are not drained by then stay in the inbox.
 */
import { openLimiter } from '../../api/budget/limiter.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import type { EndedRun } from '../../extract/slices.ts'
import { openWorker } from '../../extract/work.ts'
import type { Ingester } from '../../ingest/http/server.ts'
import { openBudgets } from '../../load/budgets.ts'
import { restoreTeam } from '../../load/teams.ts'
import { WORKS } from '../../reconcile/slices.ts'
import { openBoundedQueries } from '../../warehouse/bounded-queries.ts'
import { openSession } from '../../warehouse/connect.ts'
import { type AlertWatch, openAlerts } from '../alerts/round.ts'
import { openGauges } from '../health/gauges.ts'
import { type Metrics, openMetrics } from '../health/registry.ts'
import { openAdmin, openReadiness, type Part, type Trouble, waitOver } from './admin.ts'
import {
  type IngestTeamSource,
  openDraining,
  openHousekeeping,
  openReceiving,
  type ServeOptions,
  type Use,
} from './parts.ts'
import { openSchedule } from './schedule.ts'

export interface Serving extends AsyncDisposable {
  /** URL of the ingester; null without it. */
  readonly ingest: string | null
  readonly admin: string
  /** Next time of the schedule; null without it. */
  readonly next: Date | null
  close(): Promise<void>
}

export async function openServe(options: ServeOptions): Promise<Serving> {
  const opened: AsyncDisposable[] = []
  // Runs once, also when a part did not open.
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= closeAll(opened.toReversed())
    return closing
  }
  const use: Use = (part) => {
    opened.push(part)
    return part
  }
  try {
    const { ingest, admin, next } = await openParts(options, use)
    return { ingest, admin, next, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

async function closeAll(parts: readonly AsyncDisposable[]): Promise<void> {
  const failures: unknown[] = []
  for (const part of parts) {
    try {
      await part[Symbol.asyncDispose]()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

async function openParts(
  options: ServeOptions,
  use: Use,
): Promise<Pick<Serving, 'ingest' | 'admin' | 'next'>> {
  const { url, clock, logger, inboxDays } = options
  const teamIds = await registerTeams(url, options.ingestTeams)
  const budgets = use(openBudgets(url))
  // The refetcher, scheduled backfills and other processes share one request budget for each team.
  const teams = options.teams.map((team) => {
    const { concurrency, giveUpAfterMs, rateLimit } = team
    const store = budgets.ofTeam(teamIds.get(team.name)!)
    const ofTeam = { store, clock, logger, team: team.name }
    const limiter = openLimiter({ concurrency, giveUpAfterMs, rateLimit, ...ofTeam })
    use({ [Symbol.asyncDispose]: limiter.close })
    return { ...team, teamId: teamIds.get(team.name)!, limiter }
  })
  const metrics = openMetrics()
  const parts: Partial<Record<Part, Trouble>> = {}
  let receiving: Ingester | null = null
  const inFlight = () => receiving?.inFlight ?? { events: 0, bytes: 0 }
  const bounded = use(openBoundedQueries(url))
  const gauges = openGauges({ url, bounded, clock, registry: metrics.registry, inboxDays, inFlight })
  const reasons = openReadiness(bounded, parts, clock)
  const { registry } = metrics
  // A connection of its own: those of the probes must stay free.
  const wait = waitOver(use(openBoundedQueries(url, 1)), clock)
  const admin = use(await openAdmin({ ...options.admin, registry, refresh: gauges.refresh, reasons, wait }))
  use(await openHousekeeping({ url, inboxDays, retention: options.retention, logger }))
  const drain = options.drain ? openDraining({ options, teamIds, teams, metrics }, use) : null
  if (drain !== null) parts.drain = () => drain.trouble()
  if (options.ingest !== null) {
    const onStored = () => drain?.wake()
    const opened = await openReceiving({ options, teamIds, metrics, bounded, onStored }, options.ingest, use)
    parts.ingest = () => opened.trouble()
    receiving = opened
  }
  const alerts = startAlerts(options, metrics, use)
  if (options.work && teams.length > 0) {
    const { random, version = '0.0.0' } = options
    const onRunEnded = async ({ runId, status }: EndedRun) => {
      logger.info({ run: runId, status }, 'run ended')
      alerts?.wake()
    }
    const worker = use(
      openWorker({ url, clock, random, logger, version, teams, works: WORKS, onRunEnded, ...options.work }),
    )
    parts.work = () => worker.trouble()
  }
  const isScheduled = options.cron !== null && teams.length > 0
  const schedule = isScheduled ? use(startSchedule(options, teams, () => alerts?.wake())) : null
  if (schedule !== null) parts.schedule = () => (schedule.next() === null ? 'has no next time' : null)
  return { ingest: receiving?.url ?? null, admin: admin.url, next: schedule?.next() ?? null }
}

function startAlerts(options: ServeOptions, metrics: Metrics, use: Use): AlertWatch | null {
  const { alerts: settings = null, alertsEveryMs, url, inboxDays, clock, logger, version = '0.0.0' } = options
  if (settings === null) return null
  const teams = options.ingestTeams.map(({ name }) => name)
  const every = alertsEveryMs === undefined ? {} : { everyMs: alertsEveryMs }
  const onPosted = metrics.alertsPosted
  return use(openAlerts({ url, settings, teams, inboxDays, clock, logger, version, onPosted, ...every }))
}

function startSchedule(options: ServeOptions, teams: readonly TeamSource[], onEnded: () => void) {
  const { url, cron, cronMissed: missed = 'skip', backfill, clock, logger } = options
  return openSchedule({
    ...{ url, clock, logger, missed },
    expression: cron!,
    job: 'backfill',
    teams: teams.map(({ name }) => name),
    run(names, signal, onTeamEnded) {
      const selected = teams.filter(({ name }) => names.includes(name))
      return backfill(selected, signal, onTeamEnded).finally(onEnded)
    },
  })
}

async function registerTeams(
  url: string,
  teams: readonly IngestTeamSource[],
): Promise<ReadonlyMap<string, number>> {
  await using session = await openSession({ url, purpose: 'serve' })
  const teamIds = new Map<string, number>()
  for (const { name } of teams) teamIds.set(name, await restoreTeam(session, name))
  return teamIds
}
