/**
 * The way of events: received, stored, visible; refusals by cause; what waits, and the days of the inbox.
 *
 * Invariant: the cost does not grow with the number of stored events: pending ones are counted by their index, sizes and
 * rows of days are estimates of Postgres, and rates and times are the metrics of the process that receives.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { readInbox } from '../../operate/health/team-status.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'

const EVERY_MS = 2_000
const FRESH_MS = 1_000
/** Ten minutes. */
const MAX_SAMPLES = 300
const METRICS_MS = 1_500

export interface Sample {
  /** Seconds since 1970. */
  readonly at: number
  /** A second since the sample before: requests, refused ones included; events that were committed, and that became visible. */
  readonly received: number
  readonly stored: number
  readonly drained: number
  /** Seconds from arrival to the commit of the row; null if no event became visible. */
  readonly p50: number | null
  readonly p99: number | null
}

export interface Metrics {
  /** Events that were committed. */
  readonly received: number
  readonly drained: number
  /** Cumulative counts by upper bound, in ascending order. */
  readonly visible: readonly (readonly [bound: number, count: number])[]
  readonly refused: readonly { readonly team: string; readonly reason: string; readonly count: number }[]
}

export function serveInbox(app: FastifyInstance, { options, readings, show }: Shared): void {
  const samples: Sample[] = []
  let last: { readonly at: number; readonly metrics: Metrics } | null = null
  let sampling: Promise<Metrics | null> | null = null
  const stored = readings.share(
    () => readings.look(async (db) => [await readInbox(db), await readInboxDays(db)] as const),
    FRESH_MS,
  )

  /** Sampled while somebody looks, at most every two seconds, once for all who look. */
  async function sample(): Promise<Metrics | null> {
    if (last !== null && options.clock.now() / 1e6 - last.at < EVERY_MS / 1000) return last.metrics
    sampling ??= take().finally(() => {
      sampling = null
    })
    return await sampling
  }

  async function take(): Promise<Metrics | null> {
    const at = options.clock.now() / 1e6
    const metrics = await readMetrics(options.metricsUrl)
    if (metrics !== null && last !== null) samples.push(sampleOf(at, at - last.at, last.metrics, metrics))
    if (samples.length > MAX_SAMPLES) samples.shift()
    last = metrics === null ? null : { at, metrics }
    return metrics
  }

  app.get('/inbox', { config: { role: 'viewer' } }, async (request, reply) => {
    const metrics = await sample()
    const read = await stored.within(PATIENCE_MS)
    const [waiting, days] = read ?? [null, []]
    const data = { metrics, samples, waiting, days }
    const page = { view: 'inbox', title: 'Inbox', waits: read === null, from: [metrics, read] }
    return show(request, reply, { ...page, data })
  })

  app.get('/inbox/samples', { config: { role: 'viewer' } }, async () => {
    await sample()
    return { samples }
  })
}

export function sampleOf(at: number, seconds: number, before: Metrics, now: Metrics): Sample {
  const rate = (figure: (of: Metrics) => number) => Math.max(0, figure(now) - figure(before)) / seconds
  const refused = rate((of) => of.refused.reduce((sum, { count }) => sum + count, 0))
  const stored = rate((of) => of.received)
  const counts = now.visible.map(([bound, count]) => {
    const earlier = before.visible.find(([each]) => each === bound)?.[1] ?? 0
    return [bound, Math.max(0, count - earlier)] as const
  })
  return {
    ...{ at: Math.round(at), received: stored + refused, stored, drained: rate((of) => of.drained) },
    ...{ p50: quantileOf(counts, 0.5), p99: quantileOf(counts, 0.99) },
  }
}

/** The bound below which the share lies; the greatest finite bound for the rest; null without a count. */
export function quantileOf(counts: Metrics['visible'], share: number): number | null {
  const total = counts.at(-1)?.[1] ?? 0
  if (total === 0) return null
  const [bound] = counts.find(([, count]) => count >= total * share) ?? counts.at(-1)!
  return Number.isFinite(bound) ? bound : (counts.at(-2)?.[0] ?? null)
}

/** Null if the process that receives does not answer. */
async function readMetrics(url: string): Promise<Metrics | null> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(METRICS_MS), redirect: 'error' })
    return response.ok ? metricsIn(await response.text()) : null
  } catch {
    return null
  }
}

/** Reads the text format of Prometheus; other metrics are ignored. */
export function metricsIn(text: string): Metrics {
  let received = 0
  let drained = 0
  const refused: { team: string; reason: string; count: number }[] = []
  const visible = new Map<number, number>()
  for (const [, name, labels = '', figure] of text.matchAll(
    /^(intake_[a-z_]+)(?:\{([^}]*)\})? ([\d.e+]+)$/gm,
  )) {
    const count = Number(figure)
    const label = (key: string) => new RegExp(`\\b${key}="([^"]*)"`).exec(labels)?.[1] ?? ''
    if (name === 'intake_events_received_total') received += count
    if (name === 'intake_events_drained_total' && label('outcome') !== 'retried') drained += count
    if (name === 'intake_events_rejected_total' && count > 0)
      refused.push({ team: label('team'), reason: label('reason'), count })
    if (name === 'intake_event_visible_seconds_bucket') {
      const bound = label('le') === '+Inf' ? Number.POSITIVE_INFINITY : Number(label('le'))
      visible.set(bound, (visible.get(bound) ?? 0) + count)
    }
  }
  return { received, drained, refused, visible: [...visible].sort(([a], [b]) => a - b) }
}

interface InboxDay {
  readonly day: string
  /** An estimate; null if Postgres has none yet. */
  readonly events: number | null
  readonly bytes: number
}

async function readInboxDays(db: Kysely<Warehouse>): Promise<readonly InboxDay[]> {
  const { rows } = await sql<InboxDay>`
    select case when child.relname = 'inbox_rest' then 'other days'
        else to_char(to_date(right(child.relname, 8), 'YYYYMMDD'), 'YYYY-MM-DD') end as day,
      nullif(child.reltuples, -1)::float8 as events, pg_total_relation_size(child.oid)::float8 as bytes
    from pg_inherits join pg_class child on child.oid = inhrelid
    where inhparent = 'intake_raw.inbox'::regclass order by 1 desc`.execute(db)
  return rows
}
