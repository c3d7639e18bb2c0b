/**
 * Reads the state of each team: inbox, refetches, dead letters of events, silence.
 *
 * Invariant: it consists of counts and times; no data of an event.
 */
import { type Kysely, sql } from 'kysely'
import { type WaitingQuestion, waitingQuestions } from '../../analytics/classify.ts'
import { isRemoved } from '../../load/teams.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { judgeSilence, type SilenceVerdict } from './silence.ts'
import { readSigns, type SignsOptions, type TeamSigns } from './silence-signs.ts'

export interface InboxStatus {
  readonly team: string
  /** Events not loaded yet. */
  readonly pending: number
  readonly oldest_pending_at: string | null
  readonly oldest_pending_seconds: number | null
  /** `other` counts events of sources without a stream. */
  readonly pending_by_stream: Readonly<Record<string, number>>
  /** Pending refetches by id. */
  readonly refetches: number
}

export async function readInbox(db: Kysely<Warehouse>): Promise<readonly InboxStatus[]> {
  const streams = ALL_STREAMS.flatMap(({ name, source }) => (source === undefined ? [] : [{ name, source }]))
  const { rows } = await sql<InboxStatus>`
    with waiting as (
      select inbox.team_id, coalesce(stream.name, 'other') as stream,
        count(*)::int as events, min(inbox.received_at) as oldest
      from intake_raw.inbox inbox
      left join unnest(${streams.map(({ name }) => name)}::text[], ${streams.map(({ source }) => source)}::text[])
        as stream (name, source) on stream.source = inbox.source
      where inbox.status = 'pending'
      group by 1, 2
    )
    select team.name as team,
      coalesce(sum(waiting.events), 0)::int as pending,
      to_json(min(waiting.oldest)) #>> '{}' as oldest_pending_at,
      extract(epoch from clock_timestamp() - min(waiting.oldest))::float8 as oldest_pending_seconds,
      coalesce(
        json_object_agg(waiting.stream, waiting.events order by waiting.stream collate "C")
          filter (where waiting.stream is not null),
        '{}') as pending_by_stream,
      (select count(*)::int from intake_ops.refetches refetch where refetch.team_id = team.team_id) as refetches
    from intake.teams team left join waiting using (team_id)
    where not ${isRemoved(sql.ref('team.team_id'))}
    group by team.team_id, team.name
    order by team.name`.execute(db)
  return rows
}

export interface WebhookStatus {
  readonly team: string
  readonly verdict: SilenceVerdict
  readonly reason: string
  readonly last_event_at: string | null
  readonly events_last_day: number
  readonly events_expected_a_day: number | null
  /** Events that the service lists as delivered and that are not in the inbox. */
  readonly deliveries_missing: number
  /** Events that the service lists as not delivered and that are not in the inbox. */
  readonly deliveries_failed: number
}

export async function readWebhooks(
  db: Kysely<Warehouse>,
  options: SignsOptions,
): Promise<readonly WebhookStatus[]> {
  return (await readSigns(db, options)).map(webhookStatus)
}

function webhookStatus(signs: TeamSigns): WebhookStatus {
  const { dailyMean } = signs
  return {
    team: signs.team,
    ...judgeSilence(signs),
    last_event_at: signs.lastEventAt?.toISOString() ?? null,
    events_last_day: signs.lastDay,
    events_expected_a_day: dailyMean === null ? null : Math.round(dailyMean * 10) / 10,
    deliveries_missing: signs.deliveredMissing,
    deliveries_failed: signs.failedMissing,
  }
}

export interface TeamStatus {
  readonly team: string
  readonly inbox: Pick<InboxStatus, 'pending' | 'oldest_pending_at' | 'oldest_pending_seconds'> & {
    /** Waiting dead letters of events without a stream. */
    readonly dead_letters: number
    /** Unknown sources of events. */
    readonly drift: number
  }
  readonly refetches: number
  /** Questions that were reworded, and whose answers wait for a decision (classify). */
  readonly questions_waiting: readonly Omit<WaitingQuestion, 'team'>[]
  readonly webhooks: Omit<WebhookStatus, 'team'>
}

export async function readTeams(
  db: Kysely<Warehouse>,
  inboxDays: number,
): Promise<readonly (TeamStatus & Pick<InboxStatus, 'pending_by_stream'>)[]> {
  const webhooks = new Map(
    (await readWebhooks(db, { inboxDays })).map(({ team, ...status }) => [team, status]),
  )
  const unknown = new Map((await readUnknown(db)).map(({ team, ...counts }) => [team, counts]))
  const questions = await waitingQuestions(db)
  return (await readInbox(db)).flatMap(({ team, refetches, pending_by_stream, ...inbox }) => {
    const silence = webhooks.get(team)
    const counts = unknown.get(team)
    // A team that was added between the queries is left out.
    if (silence === undefined || counts === undefined) return []
    const questions_waiting = questions.flatMap(({ team: own, ...question }) =>
      own === team ? [question] : [],
    )
    const known = { team, inbox: { ...inbox, ...counts }, refetches, questions_waiting }
    return [{ ...known, webhooks: silence, pending_by_stream }]
  })
}

/** Counts dead letters and drift of events without a stream. */
async function readUnknown(
  db: Kysely<Warehouse>,
): Promise<readonly { team: string; dead_letters: number; drift: number }[]> {
  const { rows } = await sql<{ team: string; dead_letters: number; drift: number }>`
    select team.name as team,
      (select count(*)::int from intake_ops.dead_letters dead
        where dead.team_id = team.team_id and dead.stream = 'inbox' and dead.status = 'waiting') as dead_letters,
      (select count(*)::int from intake_ops.drift drift
        where drift.team_id = team.team_id and drift.stream = 'inbox') as drift
    from intake.teams team where not ${isRemoved(sql.ref('team.team_id'))}`.execute(db)
  return rows
}

export interface StreamTrouble {
  readonly team: string
  readonly stream: string
  /** With the status `waiting`. */
  readonly dead_letters: number
  /** Start of the newest run; null if there was none. */
  readonly last_run_at: Date | null
  readonly last_run_ok: boolean | null
  readonly last_success_at: Date | null
}

/** Reads runs and dead letters by team and stream for metrics. The cost does not grow with the number of records. */
export async function readTrouble(db: Kysely<Warehouse>): Promise<readonly StreamTrouble[]> {
  const { rows } = await sql<StreamTrouble>`
    with dead as (
      select team_id, stream, count(*)::int as waiting from intake_ops.dead_letters where status = 'waiting' group by 1, 2
    ), runs as (
      select part.team_id, part.stream, max(run.started_at) as last_at,
        (array_agg(part.status order by run.run_id desc))[1] = 'succeeded' as is_ok,
        max(run.finished_at) filter (where part.status = 'succeeded') as success_at
      from intake_ops.run_streams part join intake_ops.runs run using (run_id)
      where run.started_at > now() - interval '60 days'
      group by 1, 2
    )
    select team.name as team, stream, coalesce(dead.waiting, 0) as dead_letters,
      runs.last_at as last_run_at, runs.is_ok as last_run_ok, runs.success_at as last_success_at
    from dead full join runs using (team_id, stream) join intake.teams team using (team_id)
    where not ${isRemoved(sql.ref('team_id'))}
    order by 1, 2`.execute(db)
  return rows
}
