/**
 * Dead letters by team, stream and reason: preview, then retry or discard many at once.
 *
 * Invariant: an action reaches only the dead letters that its preview counted: those of the group up to the newest that
 * was there then. Bodies are not shown.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { discardDeadLetters, type Retried, retryDeadLetters } from '../../operate/retry-dead-letters.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { openSession } from '../../warehouse/connect.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { Refusal } from '../access.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'
import { audit, textIn } from './visits.ts'

interface Group {
  readonly team: string
  /** `inbox` for events without a stream. */
  readonly stream: string
  readonly reason: string
}

export interface GroupFigures extends Group {
  readonly waiting: number
  readonly seen: number
  readonly first_at: string
  readonly last_at: string
}

interface Waiting {
  readonly id: number
  readonly record_id: string | null
  readonly origin: string
  readonly seen: number
  readonly created_at: string
  readonly last_seen_at: string
}

/** At once; each is retried in a transaction of its own. */
const MAX_AT_ONCE = 1_000
const MAX_SHOWN = 200
const FRESH_MS = 500
const VIEWER = { config: { role: 'viewer' } } as const
const OPERATOR = { config: { role: 'operator' } } as const
const ACTIONS = ['retry', 'discard'] as const
type Action = (typeof ACTIONS)[number]

export function serveDeadLetters(app: FastifyInstance, shared: Shared): void {
  const { options, readings, show } = shared
  const waiting = readings.share(() => readings.look(readGroups), FRESH_MS)

  app.get('/dead-letters', VIEWER, async (request, reply) => {
    const groups = await waiting.within(PATIENCE_MS)
    const page = { view: 'dead-letters', title: 'Dead letters', waits: groups === null, from: [groups] }
    return show(request, reply, { ...page, data: { groups } })
  })

  app.get('/dead-letters/group', VIEWER, async (request, reply) => {
    const group = groupIn(request.query)
    const rows = await readings.look((db) => readWaiting(db, group, MAX_SHOWN))
    const isKnown = ALL_STREAMS.some(({ name }) => name === group.stream)
    const data = { group, rows: rows.listed, total: rows.total, limit: MAX_SHOWN, isKnown }
    return show(request, reply, { view: 'dead-letter-group', title: 'Dead letters of one reason', data })
  })

  app.get('/dead-letters/preview', OPERATOR, async (request, reply) => {
    const group = groupIn(request.query)
    const action = actionIn((request.query as { action?: string }).action)
    const { listed, total } = await readings.look((db) => readWaiting(db, group, MAX_AT_ONCE))
    const upTo = Math.max(0, ...listed.map(({ id }) => id))
    const ways = action === 'retry' ? waysOf(group, listed) : []
    const data = { group, action, count: listed.length, total, upTo, ways }
    return show(request, reply, { view: 'dead-letter-preview', title: `Preview: ${action}`, data })
  })

  for (const action of ACTIONS) {
    app.post(`/dead-letters/${action}`, OPERATOR, async (request, reply) => {
      const group = groupIn(request.body)
      const upTo = Number(textIn(request, 'upTo'))
      if (!Number.isSafeInteger(upTo)) throw new Refusal(400, 'the form is incomplete')
      const { listed } = await readings.look((db) => readWaiting(db, group, MAX_AT_ONCE, upTo))
      const ids = listed.map(({ id }) => id)
      const { team, stream, reason } = group
      await audit(shared, request.visitor!, {
        ...{ action, object: `dead letters of ${team}/${stream}` },
        detail: { count: ids.length, reason, up_to: upTo },
      })
      const outcomes = ids.length === 0 ? [] : await act(action, ids)
      readings.forget()
      const data = { group, action, outcomes, count: ids.length }
      return show(request, reply, { view: 'dead-letter-done', title: `Done: ${action}`, data })
    })
  }

  async function act(
    action: Action,
    ids: readonly number[],
  ): Promise<readonly (readonly [string, number])[]> {
    await using session = await openSession({ url: options.url, purpose: 'console' })
    if (action === 'retry') return countedOutcomes(await retryDeadLetters(session, ids))
    await discardDeadLetters(session.db, ids)
    return [['discarded', ids.length]]
  }
}

const OUTCOMES = {
  pending: 'back in the inbox, to be drained by serve',
  asked: 'to be fetched by id, by serve or the next backfill',
  loaded: 'loaded from the stored body',
} as const

function countedOutcomes(retried: readonly Retried[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>()
  for (const each of retried) {
    const text = each.outcome === 'not_possible' ? `not possible: ${each.why}` : OUTCOMES[each.outcome]
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  return [...counts]
}

/** What a retry would do with each of them. */
function waysOf(
  { stream: name }: Group,
  waiting: readonly Waiting[],
): readonly (readonly [string, number])[] {
  const stream = ALL_STREAMS.find((each) => each.name === name)
  const counts = new Map<string, number>()
  for (const { origin, record_id } of waiting) {
    const isEvent = /^event:/.test(origin) && !origin.endsWith(' refetch')
    const way = isEvent
      ? OUTCOMES.pending
      : stream !== undefined && stream.one !== null && record_id !== null
        ? OUTCOMES.asked
        : OUTCOMES.loaded
    counts.set(way, (counts.get(way) ?? 0) + 1)
  }
  return [...counts]
}

function groupIn(from: unknown): Group {
  const { team, stream, reason } = (from ?? {}) as Partial<Record<keyof Group, unknown>>
  if (typeof team !== 'string' || typeof stream !== 'string' || typeof reason !== 'string')
    throw new Refusal(400, 'the address names no team, stream and reason')
  return { team, stream, reason }
}

function actionIn(text: string | undefined): Action {
  const action = ACTIONS.find((each) => each === text)
  if (action === undefined) throw new Refusal(400, 'an action is retry or discard')
  return action
}

async function readGroups(db: Kysely<Warehouse>): Promise<readonly GroupFigures[]> {
  const { rows } = await sql<GroupFigures>`
    select coalesce(team.name, dead.team_id::text) as team, dead.stream, dead.reason, count(*)::int as waiting,
      sum(dead.seen)::int as seen, to_json(min(dead.created_at)) #>> '{}' as first_at,
      to_json(max(dead.last_seen_at)) #>> '{}' as last_at
    from intake_ops.dead_letters dead left join intake.teams team using (team_id)
    where dead.status = 'waiting'
    group by 1, 2, 3 order by 4 desc, 1, 2, 3 limit ${MAX_SHOWN}`.execute(db)
  return rows
}

/** The oldest first, so that what is not reached at once is next. */
async function readWaiting(
  db: Kysely<Warehouse>,
  { team, stream, reason }: Group,
  limit: number,
  upTo: number | null = null,
): Promise<{ readonly listed: readonly Waiting[]; readonly total: number }> {
  const { rows } = await sql<Waiting & { total: number }>`
    select dead.id::int as id, dead.record_id, dead.origin, dead.seen::int as seen, count(*) over ()::int as total,
      to_json(dead.created_at) #>> '{}' as created_at, to_json(dead.last_seen_at) #>> '{}' as last_seen_at
    from intake_ops.dead_letters dead left join intake.teams team using (team_id)
    where dead.status = 'waiting' and coalesce(team.name, dead.team_id::text) = ${team} and dead.stream = ${stream}
      and dead.reason = ${reason} and (${upTo}::bigint is null or dead.id <= ${upTo}::bigint)
    order by dead.id limit ${limit}`.execute(db)
  return { listed: rows, total: rows[0]?.total ?? 0 }
}
