/**
 * Ingester, drain with refetches, schedule and admin server in one process, over a migrated warehouse.
 *
 *     admin ─► housekeeping ─► refetcher, drain ─► ingester ─► alerts ─► schedule     opened so, closed in reverse
 *
 * Invariant: each part works without the others. Closing accepts nothing more, answers and commits what was accepted,
 * and finishes the batches in hand; events that are not drained by then wait in the inbox.
 */
import { openLimiter } from '../../api/budget/limiter.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import type { Ingester } from '../../ingest/http/server.ts'
import { bringBack } from '../../load/teams.ts'
import { openSession } from '../../warehouse/connect.ts'
import { type AlertWatch, openAlerts } from '../alerts/watch.ts'
import { openGauges } from '../metrics/gauges.ts'
import { type Metrics, openMetrics } from '../metrics/registry.ts'
import { openAdmin } from './admin.ts'
import { openHousekeeping } from './housekeeping.ts'
import type { IngestTeamSource, ServeOptions, Use } from './options.ts'
import { openDraining, openReceiving } from './parts.ts'
import { reasonsNotReady, type Troubled } from './readiness.ts'
import { openSchedule } from './schedule.ts'

export interface Serving extends AsyncDisposable {
  /** Where events are received; null without the ingester. */
  readonly ingest: string | null
  readonly admin: string
  /** When the schedule runs next; null without it. */
  readonly next: Date | null
  close(): Promise<void>
}

export async function openServe(options: ServeOptions): Promise<Serving> {
  const opened: AsyncDisposable[] = []
  // Once, in reverse, also when one of them did not open.
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
  const numbers = await numberTeams(url, options.ingestTeams)
  // One budget of requests a team, whoever asks.
  const teams = options.teams.map((team) => ({
    ...team,
    teamId: numbers.get(team.name)!,
    limiter: openLimiter({ concurrency: team.concurrency, giveUpAfterMs: team.giveUpAfterMs, clock, logger }),
  }))
  const metrics = openMetrics()
  const troubles: Record<string, Troubled> = {}
  let receiving: Ingester | null = null
  const inFlight = () => receiving?.inFlight ?? { events: 0, bytes: 0 }
  const gauges = openGauges({ url, clock, registry: metrics.registry, inboxDays, inFlight })
  const reasons = () => reasonsNotReady(url, troubles)
  const { registry } = metrics
  const admin = use(await openAdmin({ ...options.admin, registry, refresh: gauges.refresh, reasons }))
  use(await openHousekeeping({ url, inboxDays, logger }))
  const drain = options.drain ? openDraining({ options, numbers, teams, metrics }, use) : null
  if (drain !== null) troubles.drain = () => drain.trouble()
  if (options.ingest !== null) {
    const onStored = () => drain?.wake()
    const opened = await openReceiving({ options, numbers, metrics, onStored }, options.ingest, use)
    troubles.ingest = () => opened.trouble()
    receiving = opened
  }
  const alerts = alertsOf(options, metrics, use)
  const scheduled = options.cron !== null && teams.length > 0
  const schedule = scheduled ? use(scheduleOf(options, teams, () => alerts?.wake())) : null
  return { ingest: receiving?.url ?? null, admin: admin.url, next: schedule?.next() ?? null }
}

function alertsOf(options: ServeOptions, metrics: Metrics, use: Use): AlertWatch | null {
  const { alerts: settings = null, alertsEveryMs, url, inboxDays, clock, logger, version = '0.0.0' } = options
  if (settings === null) return null
  const teams = options.ingestTeams.map(({ name }) => name)
  const every = alertsEveryMs === undefined ? {} : { everyMs: alertsEveryMs }
  const onPosted = metrics.alertsPosted
  return use(openAlerts({ url, settings, teams, inboxDays, clock, logger, version, onPosted, ...every }))
}

function scheduleOf(options: ServeOptions, teams: readonly TeamSource[], onEnded: () => void) {
  const { url, cron, backfill, clock, logger } = options
  return openSchedule({
    ...{ url, clock, logger },
    expression: cron!,
    job: 'backfill',
    teams: teams.map(({ name }) => name),
    run(names, signal, onTeamEnded) {
      const ours = teams.filter(({ name }) => names.includes(name))
      return backfill(ours, signal, onTeamEnded).finally(onEnded)
    },
  })
}

async function numberTeams(
  url: string,
  teams: readonly IngestTeamSource[],
): Promise<ReadonlyMap<string, number>> {
  await using session = await openSession({ url, purpose: 'serve' })
  const numbers = new Map<string, number>()
  for (const { name } of teams) numbers.set(name, await bringBack(session, name))
  return numbers
}
