/**
 * Removes a team from the warehouse, and keeps or deletes its data.
 *
 *     locks ─► mark as removed: no more receiving or loading ─► settle pending events ─► [delete every row] ─► finish
 *
 * Invariant: safe while a `serve` still has the team in its configuration. Receiving and loading read the mark under
 * shared locks. After setting the mark, the removal takes each lock exclusively once, so that every transaction of theirs
 * either has ended or sees the mark. An interrupted removal is completed by running it again.
 */
import { type Kysely, sql } from 'kysely'
import { refreshAnalytics } from '../analytics/refresh.ts'
import { wideViewsOf } from '../analytics/wide/wide-views.ts'
import type { Clock } from '../core/clock.ts'
import { IntakeError, verdictOf } from '../core/errors.ts'
import { selectTeams } from '../core/which-team.ts'
import { isExecuted } from '../load/claims.ts'
import { lockStreams } from '../load/runs.ts'
import { ALL_STREAMS } from '../streams/catalogue.ts'
import { openSession } from '../warehouse/connect.ts'
import { isLocked, lockAlone, tryLock } from '../warehouse/locks.ts'
import { SQLSTATE, sqlstateOf, warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { readTeams } from '../warehouse/teams.ts'
import { deleteRows, type WithRetries } from './delete-team-rows.ts'
import { refreshStatistics } from './erase/refresh-statistics.ts'

export interface RemoveOptions {
  readonly url: string
  readonly name: string
  readonly data: 'kept' | 'deleted'
  readonly clock: Clock
  readonly signal: AbortSignal
}

export interface RemovedTeam {
  readonly teamId: number
  /** Events that were pending. */
  readonly events: number
  /** Deleted rows; 0 if the data is kept. */
  readonly rows: number
  readonly tables: readonly string[]
  /** Warnings, for example about views that are out of date. */
  readonly notes: readonly string[]
}

const LOCK_TIMEOUT_MS = 2_000
const TRIES = 60
const PAUSE_MS = 1_000
/** Events that one statement settles. */
const PORTION = 5_000

/** Tables of intake_ops with a team's work in progress. */
const IN_PROGRESS = ['refetches', 'checkpoints', 'scans', 'missed_once', 'alerts', 'schedule_ticks'] as const

/** Throws `unknown_team`, and `held_by_another_run` if a run of the team is in progress. */
export async function removeTeam({ url, name, data, clock, signal }: RemoveOptions): Promise<RemovedTeam> {
  await using session = await openSession({ url, purpose: 'teams remove', lockTimeoutMs: LOCK_TIMEOUT_MS })
  const { db } = session
  const withRetries = retriesUntil(clock, signal)
  try {
    const { teamId } = selectTeams(await readTeams(db), name, 'warehouse', 'NAME')[0]!
    if (!(await tryLock(session, 'team', name))) throw runInProgress(`team ${name} is being removed already`)
    await lockStreams(session, ALL_STREAMS, [{ teamId, name }])
    await requireNoRun(db, name)
    await withRetries(() => mark(db, { teamId, name, data }))
    // Until every transaction that shares it has ended; released at once.
    for (const lock of ['loading', 'receiving'] as const)
      await withRetries(() => lockAlone(db, lock, String(teamId)))
    const events = await settlePending(db, teamId, withRetries, signal)
    await withRetries(() => deleteWorkInProgress(db, teamId, events))
    const kept = { teamId, events, rows: 0, tables: [], notes: [] }
    const done = data === 'kept' ? kept : { ...kept, ...(await deleteAll(db, teamId, withRetries, signal)) }
    await sql`update intake_ops.removed_teams set finished_at = now() where team_id = ${teamId}`.execute(db)
    return done
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw warehouseError(error)
  }
}

/** A verification takes no lock on streams, so it could store findings of a removed team when it ends. */
async function requireNoRun(db: Kysely<Warehouse>, name: string): Promise<void> {
  const { rows } = await sql<{ run_id: number }>`
    select run_id::int as run_id from intake_ops.runs
    where status = 'running' and options -> 'teams' @> to_jsonb(array[${name}::text])
      and (${isLocked('run', sql<string>`run_id::text`)} or ${isExecuted(sql`runs.run_id`)})
    limit 1`.execute(db)
  if (rows[0] === undefined) return
  const { run_id: run } = rows[0]
  throw runInProgress(`run ${run} of team ${name} is in progress`, `: intake-sync runs cancel ${run}`)
}

function runInProgress(message: string, how = ''): IntakeError {
  return new IntakeError(`${message}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: `wait for it to end, or stop it${how}`,
  })
}

interface Mark {
  readonly teamId: number
  readonly name: string
  readonly data: 'kept' | 'deleted'
}

/** A team that was removed with `deleted` stays `deleted`, because its rows may be gone already. */
async function mark(db: Kysely<Warehouse>, { teamId, name, data }: Mark): Promise<void> {
  await sql`
    insert into intake_ops.removed_teams as stored (team_id, name, data) values (${teamId}, ${name}, ${data})
    on conflict (team_id) do update
    set data = case when stored.data = 'deleted' then stored.data else excluded.data end, finished_at = null`.execute(
    db,
  )
}

/** Returns the number of events. `infinity` marks them for `restoreTeam`, which makes them pending again. */
async function settlePending(
  db: Kysely<Warehouse>,
  teamId: number,
  withRetries: WithRetries,
  signal: AbortSignal,
): Promise<number> {
  for (let events = 0; ; ) {
    signal.throwIfAborted()
    const settled = await withRetries(async () => {
      const { numAffectedRows } = await sql`
        update intake_raw.inbox set status = 'dead', settled_at = clock_timestamp(), due_at = 'infinity'
        where team_id = ${teamId} and status = 'pending' and seq = any(array(
          select seq from intake_raw.inbox where team_id = ${teamId} and status = 'pending' order by seq limit ${PORTION}
        ))`.execute(db)
      return Number(numAffectedRows ?? 0n)
    })
    events += settled
    if (settled === 0) return events
  }
}

/** Deletes checkpoints too, so that the first run of a restored team reads everything since before the gap. */
async function deleteWorkInProgress(db: Kysely<Warehouse>, teamId: number, events: number): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    for (const table of IN_PROGRESS) {
      await sql`delete from ${sql.table(`intake_ops.${table}`)} where team_id = ${teamId}`.execute(
        transaction,
      )
    }
    await sql`update intake_ops.removed_teams set events = events + ${events} where team_id = ${teamId}`.execute(
      transaction,
    )
  })
}

/** Two passes, because the refresh of the views writes rows for each form and export. */
async function deleteAll(
  db: Kysely<Warehouse>,
  teamId: number,
  withRetries: WithRetries,
  signal: AbortSignal,
): Promise<Pick<RemovedTeam, 'rows' | 'tables' | 'notes'>> {
  const kept = await dropWideViews(db, teamId, withRetries)
  const first = await deleteRows(db, teamId, withRetries, signal)
  const stale = await refreshAnalytics(db)
  await dropWideViews(db, teamId, withRetries)
  const second = await deleteRows(db, teamId, withRetries, signal)
  await withRetries(() => sql`delete from intake.teams where team_id = ${teamId}`.execute(db))
  const refreshed = await withRetries(() => refreshStatistics(db))
  return {
    rows: first.rows + second.rows,
    tables: [...new Set([...first.tables, ...second.tables])].sort(),
    notes: [
      ...(stale === null ? [] : [stale]),
      ...(kept.length === 0
        ? []
        : [`views stay, because others own them or build on them; drop them: ${kept.join(', ')}`]),
      ...(refreshed
        ? []
        : ['planner statistics may still contain values of the team; docs/security.md describes what to do']),
    ],
  }
}

/** Drops the views of the team's forms and exports, whose columns name its questions. Returns those that stay. */
async function dropWideViews(
  db: Kysely<Warehouse>,
  teamId: number,
  withRetries: WithRetries,
): Promise<readonly string[]> {
  const kept: string[] = []
  for (const view of await wideViewsOf(db, teamId)) {
    try {
      await withRetries(() => sql`drop view if exists ${sql.table(view)}`.execute(db))
    } catch (error) {
      const state = sqlstateOf(error)
      if (state !== SQLSTATE.insufficientPrivilege && state !== SQLSTATE.othersDepend) throw error
      kept.push(view)
    }
  }
  return kept
}

/** Returns a function that retries until `signal` aborts or `TRIES` is reached. */
function retriesUntil(clock: Clock, signal: AbortSignal): WithRetries {
  return async (work) => {
    for (let tries = 1; ; tries++) {
      try {
        return await work()
      } catch (thrown) {
        const error = warehouseError(thrown)
        if (verdictOf(error) !== 'retry' || error.code === 'warehouse_unreachable' || tries === TRIES)
          throw thrown
        await clock.sleep(PAUSE_MS, signal)
      }
    }
  }
}
