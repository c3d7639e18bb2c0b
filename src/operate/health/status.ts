/**
 * Reads the state of each team and stream.
 *
 * Invariant: it consists of counts, times and names of streams; no data of a patient.
 */
import { type Kysely, sql } from 'kysely'
import { isRemoved } from '../../load/teams.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { openSession } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { isNewestGone } from './counts.ts'
import { readWaitingSlices, type WaitingSlices } from './runs.ts'
import { readTeams, type TeamStatus } from './team-status.ts'

export interface StreamStatus {
  readonly team: string
  readonly stream: string
  /** Live rows. */
  readonly rows: number
  readonly deleted: number
  /** Version of the newest state, ISO 8601. */
  readonly newest_record_at: string | null
  readonly last_run_at: string | null
  readonly last_run_status: string | null
  readonly last_success_at: string | null
  /** Seconds since the last successful run ended. */
  readonly lag_seconds: number | null
  /** With the status `waiting`. */
  readonly dead_letters: number
  /** Unknown fields and types. */
  readonly drift: number
  /** Pending events of the stream. */
  readonly inbox: number
}

export interface Status {
  readonly streams: readonly StreamStatus[]
  readonly teams: readonly TeamStatus[]
  readonly slices_waiting: readonly WaitingSlices[]
}

/** `inboxDays`: deliveries older than this are not compared with the inbox. */
export async function readStatus(url: string, inboxDays: number): Promise<Status> {
  await using session = await openSession({ url, purpose: 'status' })
  try {
    const teams = await readTeams(session.db, inboxDays)
    const pending = new Map(teams.map(({ team, pending_by_stream }) => [team, pending_by_stream]))
    const streams = (await readStreams(session.db)).map((row) => ({
      ...row,
      inbox: pending.get(row.team)?.[row.stream] ?? 0,
    }))
    const slices_waiting = await readWaitingSlices(session.db)
    return { streams, teams: teams.map(({ pending_by_stream: _, ...team }) => team), slices_waiting }
  } catch (error) {
    throw warehouseError(error)
  }
}

async function readStreams(db: Kysely<Warehouse>): Promise<readonly Omit<StreamStatus, 'inbox'>[]> {
  const { rows } = await sql<Omit<StreamStatus, 'inbox'>>`
      select
        team.name as team,
        stream.name as stream,
        counted.live::int as rows,
        counted.deleted::int as deleted,
        to_json(counted.newest) #>> '{}' as newest_record_at,
        to_json(last_run.started_at) #>> '{}' as last_run_at,
        last_run.status as last_run_status,
        to_json(last_success.finished_at) #>> '{}' as last_success_at,
        extract(epoch from now() - last_success.finished_at)::int as lag_seconds,
        (select count(*)::int from intake_ops.dead_letters dead
          where dead.team_id = team.team_id and dead.stream = stream.name and dead.status = 'waiting') as dead_letters,
        (select count(*)::int from intake_ops.drift drift
          where drift.team_id = team.team_id and drift.stream = stream.name) as drift
      from intake.teams team
      cross join unnest(${ALL_STREAMS.map((stream) => stream.name)}::text[]) with ordinality as stream (name, place)
      cross join lateral (
        select coalesce(sum(live), 0) as live, coalesce(sum(deleted), 0) as deleted,
          case
            when ${isNewestGone} then (
              select max(version) from intake_raw.records record
              where record.team_id = team.team_id and record.stream = stream.name
            )
            else max(newest)
          end as newest
        from intake_ops.record_counts
        where record_counts.team_id = team.team_id and record_counts.stream = stream.name
      ) counted
      left join lateral (
        select run.started_at, part.status
        from intake_ops.run_streams part join intake_ops.runs run using (run_id)
        where part.team_id = team.team_id and part.stream = stream.name
        order by run.run_id desc limit 1
      ) last_run on true
      left join lateral (
        select run.finished_at
        from intake_ops.run_streams part join intake_ops.runs run using (run_id)
        where part.team_id = team.team_id and part.stream = stream.name and part.status = 'succeeded'
          and run.finished_at is not null
        order by run.run_id desc limit 1
      ) last_success on true
      where not ${isRemoved(sql.ref('team.team_id'))}
      order by team.name, stream.place`.execute(db)
  return rows
}
