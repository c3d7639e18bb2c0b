/**
 * Drains stored events again, from a time on: loaded and dead-lettered ones.
 *
 *     events since then ─► pending again, a portion at a time ─► the drain ─► done or dead
 *
 * Invariant: draining an event twice gives the same tables as once (law 2), so the replay may be stopped anywhere and run
 * concurrently with the drain of `serve`. A dead-lettered event is tried again, and its dead letter becomes `retried`.
 * The replay waits only for events that were stored when it began, so it ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { Instant } from '../core/time.ts'
import { type DrainTeam, openDrain } from '../ingest/drain/drain.ts'
import { beginRun, finishRun, type RunStatus, withinRun } from '../load/runs.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { teamsToReplay } from './replay.ts'

export interface InboxReplayOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly since: Instant
  /** One team of the warehouse; all of them when left out. */
  readonly team?: string
  /** Only events about these; every event, readable or not, when null. */
  readonly streams: readonly Stream[] | null
  /** API versions from the configuration, by team name. */
  readonly versions: ReadonlyMap<string, string>
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly onProgress: (events: number, of: number) => void
  /** Events that are drained before the next are taken up. */
  readonly portion?: number
}

export interface InboxReplayed {
  readonly runId: string
  readonly status: RunStatus
  readonly events: number
  readonly done: number
  readonly dead: number
  /** Events that could not be loaded yet and will be tried again. */
  readonly waiting: number
}

const PORTION = 5_000

/** An event that fails is retried soon, and then becomes a dead letter: the user waits for the result. */
const BACKOFF_MS = [500, 2_000]
const PATIENCE_MS = 10_000
const POLL_MS = 20

const AGAIN = sql.table('pg_temp.again')

export async function replayInbox(options: InboxReplayOptions): Promise<InboxReplayed> {
  const { url, clock, logger, since, streams, versions, onProgress, portion = PORTION } = options
  await using session = await openSession({ url, purpose: 'replay --inbox' })
  try {
    const teams = await teamsToReplay(session, options.team)
    const requested = { inbox: true, since, streams: streams?.map(({ name }) => name) ?? null }
    const runId = await beginRun(session, 'replay', { ...requested, teams: teams.map(({ name }) => name) })
    return await withinRun({ url, runId, session, signal: options.signal }, async (signal) => {
      const teamIds = teams.map(({ teamId }) => teamId)
      const { events, last } = await choose(session, options, teamIds)
      const draining = teams.map(({ name, teamId }): DrainTeam => {
        const apiVersion = versions.get(name)
        return { name, teamId, ...(apiVersion === undefined ? {} : { apiVersion }) }
      })
      const watch = { drained: () => {}, refetched: () => {}, defect: () => {} }
      await using drain = openDrain({ url, teams: draining, clock, logger, watch, backoffMs: BACKOFF_MS })
      // Events that are still pending are drained first, in their order.
      await drained(session, teamIds, last, signal)
      for (let from = 0; from < events && !signal.aborted; from += portion) {
        await setPending(session, from, portion)
        drain.wake()
        await drained(session, teamIds, last, signal)
        onProgress(Math.min(events, from + portion), events)
      }
      const deadline = clock.now() + PATIENCE_MS * 1000
      let counts = await countOf(session)
      while (counts.waiting > 0 && clock.now() < deadline && !signal.aborted) {
        await sleep(100)
        counts = await countOf(session)
      }
      const attention = counts.dead + counts.waiting > 0
      const status = signal.aborted ? 'interrupted' : attention ? 'needs_attention' : 'succeeded'
      const note = attention ? `${counts.dead} event(s) dead-lettered, ${counts.waiting} to be retried` : null
      await finishRun(session.db, runId, status, note)
      return { runId, status, events, ...counts }
    })
  } catch (error) {
    throw warehouseError(error)
  }
}

/** Resolves when no event up to `last` is pending and due, in whoever's hands, or the replay is to stop. */
async function drained(
  { db }: Session,
  teamIds: readonly number[],
  last: string,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const { rows } = await sql<{ due: boolean }>`
      select exists (
        select from intake_raw.inbox
        where status = 'pending' and seq <= ${last} and (due_at is null or due_at <= now())
          and team_id = any (${teamIds}::smallint[])
      ) as due`.execute(db)
    if (!rows[0]!.due) return
    await sleep(POLL_MS)
  }
}

/** Notes which events are meant, in the order in which they were stored. */
async function choose(
  { db }: Session,
  { since, streams }: InboxReplayOptions,
  teamIds: readonly number[],
): Promise<Chosen> {
  const sources = streams === null ? null : streams.flatMap(({ source }) => source ?? [])
  await sql`
    create temporary table again as
    select row_number() over (order by seq)::int as number, seq, team_id, event_id, body_hash, received_on
    from intake_raw.inbox
    where received_on >= (${since}::timestamptz at time zone 'UTC')::date and received_at >= ${since}
      and team_id = any(${teamIds}::smallint[]) and status <> 'pending'
      and (${sources}::text[] is null or source = any(${sources}::text[]))`.execute(db)
  await sql`create index on ${AGAIN} (number)`.execute(db)
  const { rows } = await sql<{ events: number; last: string }>`
    select count(*)::int as events, coalesce(greatest(max(seq), (
      select max(seq) from intake_raw.inbox where status = 'pending' and team_id = any(${teamIds}::smallint[])
    )), 0)::text as last from ${AGAIN}`.execute(db)
  return rows[0]!
}

interface Chosen {
  readonly events: number
  /** The last of them, and of those that were pending already, by `seq`. */
  readonly last: string
}

async function setPending({ db }: Session, from: number, portion: number): Promise<void> {
  const meant = sql`
    again.number > ${from} and again.number <= ${from + portion} and own.received_on = again.received_on
    and own.team_id = again.team_id and own.event_id = again.event_id and own.body_hash = again.body_hash`
  await db.transaction().execute(async (transaction) => {
    await sql`
      update intake_ops.dead_letters dead set status = 'retried', settled_at = now()
      from ${AGAIN} again, intake_raw.inbox own
      where ${meant} and own.status = 'dead' and dead.team_id = own.team_id and dead.status = 'waiting'
        and dead.origin = 'event:' || own.event_id`.execute(transaction)
    await sql`
      update intake_raw.inbox own set status = 'pending', attempts = 0, due_at = null, settled_at = null
      from ${AGAIN} again where ${meant} and own.status <> 'pending'`.execute(transaction)
  })
}

async function countOf({ db }: Session): Promise<{ done: number; dead: number; waiting: number }> {
  const { rows } = await sql<{ done: number; dead: number; waiting: number }>`
    select count(*) filter (where own.status = 'done')::int as done,
      count(*) filter (where own.status = 'dead')::int as dead,
      count(*) filter (where own.status = 'pending')::int as waiting
    from ${AGAIN} again join intake_raw.inbox own using (team_id, event_id, body_hash, received_on)`.execute(
    db,
  )
  return rows[0]!
}
