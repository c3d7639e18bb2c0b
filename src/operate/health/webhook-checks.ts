/**
 * Judges the webhooks of all teams together, or, where that takes too long, of each team within a limit of its own; and the
 * gauges that show the result.
 *
 * Invariant: a team that exceeds its limit is left out, and delays the others by that limit at most. Teams that were not
 * reached come first in the next call.
 */
import type { Kysely } from 'kysely'
import type { Gauge } from 'prom-client'
import { withinBudget } from '../../warehouse/connect.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { readWebhooks, type WebhookStatus } from './team-status.ts'

export interface WebhookChecks {
  /** Judges these teams; null for all. A team that is not in the result could not be judged. */
  check(db: Kysely<Warehouse>, teams: readonly string[] | null): Promise<readonly WebhookStatus[]>
}

export interface ChecksOptions {
  readonly inboxDays: number
  /** Limit for one team, and for all teams together. */
  readonly eachMs?: number
  /** Limit for all teams one by one. */
  readonly allMs?: number
}

const EACH_MS = 2_000
const ALL_MS = 5_000
/** Checks one by one after a check of all together that took too long. */
const ONE_BY_ONE = 10

export function openWebhookChecks(options: ChecksOptions): WebhookChecks {
  /** The sequence number of each team's last check. */
  const lastChecks = new Map<string, number>()
  let checks = 0
  /** Of the next checks. */
  let oneByOne = 0
  return {
    async check(db, teams) {
      const { inboxDays, eachMs = EACH_MS, allMs = ALL_MS } = options
      const known = await teamNames(db)
      const wanted = known.filter((name) => teams === null || teams.includes(name))
      oneByOne = Math.max(0, oneByOne - 1)
      if (oneByOne === 0) {
        const all = await withinBudget(db, eachMs, () => readWebhooks(db, { inboxDays }))
        if (all !== null) return all.filter(({ team }) => wanted.includes(team))
        oneByOne = ONE_BY_ONE
      }
      const found: WebhookStatus[] = []
      const end = performance.now() + allMs
      for (const name of lastChecks.keys()) if (!known.includes(name)) lastChecks.delete(name)
      wanted.sort((a, b) => (lastChecks.get(a) ?? 0) - (lastChecks.get(b) ?? 0))
      for (const team of wanted) {
        const left = end - performance.now()
        if (left <= 0) break
        checks += 1
        lastChecks.set(team, checks)
        const look = () => readWebhooks(db, { inboxDays, team })
        found.push(...((await withinBudget(db, Math.min(eachMs, left), look)) ?? []))
      }
      return found
    },
  }
}

async function teamNames(db: Kysely<Warehouse>): Promise<readonly string[]> {
  const teams = await readTeams(db)
  return teams.toSorted((a, b) => a.teamId - b.teamId).map(({ name }) => name)
}

export type MakeGauge = <Label extends string>(
  name: string,
  help: string,
  labelNames?: readonly Label[],
) => Gauge<Label>

interface WebhookGauges {
  /** A team that could not be judged keeps its values. */
  show(teams: readonly WebhookStatus[]): void
  /** Removes the labels of all other teams. */
  keep(teams: readonly { readonly team: string }[]): void
}

/** Prometheus gauges of the webhooks of each team. */
export function webhookGauges(gauge: MakeGauge): WebhookGauges {
  const labels = ['team'] as const
  const last = gauge('webhook_last_event_timestamp_seconds', 'When the last event arrived.', labels)
  const day = gauge('webhook_events_last_day', 'Events of the last 24 hours.', labels)
  const expected = gauge('webhook_events_expected_per_day', 'Mean of the previous days.', labels)
  const missing = gauge(
    'webhook_deliveries_missing',
    'Events that the service lists as sent and that are not in the inbox.',
    labels,
  )
  const silent = gauge('webhook_silent', '1 when webhooks have stopped (see intake-sync status).', labels)
  const quiet = gauge(
    'webhook_quiet',
    '1 when fewer events arrived than expected, or some are missing.',
    labels,
  )
  const shown = new Set<string>()
  const show: WebhookGauges['show'] = (teams) => {
    for (const { team, verdict, ...status } of teams) {
      shown.add(team)
      if (status.last_event_at !== null) last.set({ team }, Date.parse(status.last_event_at) / 1000)
      day.set({ team }, status.events_last_day)
      if (status.events_expected_a_day !== null) expected.set({ team }, status.events_expected_a_day)
      missing.set({ team }, status.deliveries_missing + status.deliveries_failed)
      silent.set({ team }, verdict === 'silent' ? 1 : 0)
      quiet.set({ team }, verdict === 'quiet' ? 1 : 0)
    }
  }
  const keep: WebhookGauges['keep'] = (teams) => {
    for (const team of shown) {
      if (teams.some((each) => each.team === team)) continue
      for (const each of [last, day, expected, missing, silent, quiet]) each.remove({ team })
      shown.delete(team)
    }
  }
  return { show, keep }
}
