/**
 * Removes a team from the warehouse, its data kept or deleted.
 *
 *     locks ─► removed: nothing more is received or loaded ─► nothing pending ─► [every row deleted] ─► finished
 *
 * Invariant: safe beside a `serve` that still has the team in its configuration. Receiving and loading look for the mark
 * under locks that they share; the removal takes each alone for a moment after it has marked the team, so that each of
 * their transactions either ended before that, or knows. A removal that is interrupted is completed when it is run again.
 */
import { type Kysely, sql } from 'kysely'
import { refreshAnalytics } from '../../analytics/refresh.ts'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import { lockStreams } from '../../load/stream-locks.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { openSession } from '../../warehouse/connect.ts'
import { isLocked, tryLock } from '../../warehouse/locks.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { refreshStatistics } from '../erase/refresh-statistics.ts'
import { deleteRows, type Patiently } from './delete-rows.ts'

export interface Removing {
  readonly url: string
  readonly name: string
  readonly data: 'kept' | 'deleted'
  readonly clock: Clock
  readonly signal: AbortSignal
}

export interface RemovedTeam {
  readonly teamId: number
  /** That were pending. */
  readonly events: number
  /** Deleted, where the data is not kept. */
  readonly rows: number
  readonly tables: readonly string[]
  /** What is not as it should be, in words: views that are out of date, say. */
  readonly notes: readonly string[]
}

/** First halves of the keys of the advisory locks of hold_erasures and hold_inbox_of; the second is the team. */
const LOADING = 7_204_315
const RECEIVING = 7_204_316

const LOCK_TIMEOUT_MS = 2_000
const TRIES = 60
const PAUSE_MS = 1_000
/** Events that are settled at once. */
const PORTION = 5_000

/** What a team has under way, and only that; the tables of records are no part of it. */
const UNDER_WAY = ['refetches', 'checkpoints', 'missed_once', 'alerts', 'schedule_ticks'] as const

/** Throws for an unknown name, and where a run is at the team. */
export async function removeTeam({ url, name, data, clock, signal }: Removing): Promise<RemovedTeam> {
  await using session = await openSession({ url, purpose: 'teams remove', lockTimeoutMs: LOCK_TIMEOUT_MS })
  const { db } = session
  const patiently = patienceOf(clock, signal)
  try {
    const teamId = await knownTeam(db, name)
    if (!(await tryLock(session, 'team', name))) throw heldByAnother(`team ${name} is being removed already`)
    await lockStreams(session, ALL_STREAMS, [{ teamId, name }])
    await refuseWhileRead(db, name)
    await patiently(() => mark(db, { teamId, name, data }))
    for (const lock of [LOADING, RECEIVING]) await patiently(() => outwait(db, lock, teamId))
    const events = await settlePending(db, teamId, patiently, signal)
    await patiently(() => forgetUnderWay(db, teamId, events))
    const kept = { teamId, events, rows: 0, tables: [], notes: [] }
    const done = data === 'kept' ? kept : { ...kept, ...(await deleteAll(db, teamId, patiently, signal)) }
    await sql`update intake_ops.removed_teams set finished_at = now() where team_id = ${teamId}`.execute(db)
    return done
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw warehouseError(error)
  }
}

async function knownTeam(db: Kysely<Warehouse>, name: string): Promise<number> {
  const rows = await db.selectFrom('intake.teams').select(['team_id', 'name']).orderBy('name').execute()
  const team = rows.find((row) => row.name === name)
  if (team !== undefined) return team.team_id
  throw new IntakeError('NAME is no team of this warehouse', {
    code: 'unknown_team',
    verdict: 'stop',
    hint: rows.length === 0 ? 'there is none yet' : `use one of: ${rows.map((row) => row.name).join(', ')}`,
  })
}

/** A verification holds no lock of a stream; what it stores at its end must not be of a team that is gone. */
async function refuseWhileRead(db: Kysely<Warehouse>, name: string): Promise<void> {
  const { rows } = await sql<{ run_id: number }>`
    select run_id::int as run_id from intake_ops.runs
    where status = 'running' and options -> 'teams' @> to_jsonb(array[${name}::text])
      and ${isLocked('run', sql<string>`run_id::text`)}
    limit 1`.execute(db)
  if (rows[0] !== undefined) throw heldByAnother(`run ${rows[0].run_id} is at team ${name}`)
}

function heldByAnother(message: string): IntakeError {
  return new IntakeError(`${message}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: 'wait for it to end, or stop it',
  })
}

interface Mark {
  readonly teamId: number
  readonly name: string
  readonly data: 'kept' | 'deleted'
}

/** What is deleted stays so: rows that are gone make no team that was kept. */
async function mark(db: Kysely<Warehouse>, { teamId, name, data }: Mark): Promise<void> {
  await sql`
    insert into intake_ops.removed_teams as held (team_id, name, data) values (${teamId}, ${name}, ${data})
    on conflict (team_id) do update
    set data = case when held.data = 'deleted' then held.data else excluded.data end, finished_at = null`.execute(
    db,
  )
}

/** Resolves when every transaction that has the lock has ended; the lock is given back at once. */
async function outwait(db: Kysely<Warehouse>, lock: number, teamId: number): Promise<void> {
  await sql`select from pg_advisory_xact_lock(${lock}::int, ${teamId}::int)`.execute(db)
}

/** `infinity` says why they are dead: `bringBack` makes them pending again. Returns how many. */
async function settlePending(
  db: Kysely<Warehouse>,
  teamId: number,
  patiently: Patiently,
  signal: AbortSignal,
): Promise<number> {
  for (let events = 0; ; ) {
    signal.throwIfAborted()
    const settled = await patiently(async () => {
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

/** The next run of a team that comes back reads everything: its checkpoint speaks of a time before the gap. */
async function forgetUnderWay(db: Kysely<Warehouse>, teamId: number, events: number): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    for (const table of UNDER_WAY) {
      await sql`delete from ${sql.table(`intake_ops.${table}`)} where team_id = ${teamId}`.execute(
        transaction,
      )
    }
    await sql`update intake_ops.removed_teams set events = events + ${events} where team_id = ${teamId}`.execute(
      transaction,
    )
  })
}

/** The views are refreshed between two passes: they have rows of their own for each form and export. */
async function deleteAll(
  db: Kysely<Warehouse>,
  teamId: number,
  patiently: Patiently,
  signal: AbortSignal,
): Promise<Pick<RemovedTeam, 'rows' | 'tables' | 'notes'>> {
  const first = await deleteRows(db, teamId, patiently, signal)
  const stale = await refreshAnalytics(db)
  const second = await deleteRows(db, teamId, patiently, signal)
  await patiently(() => sql`delete from intake.teams where team_id = ${teamId}`.execute(db))
  const remembered = !(await patiently(() => refreshStatistics(db)))
  return {
    rows: first.rows + second.rows,
    tables: [...new Set([...first.tables, ...second.tables])].sort(),
    notes: [
      ...(stale === null ? [] : [stale]),
      ...(remembered
        ? ['Postgres may remember some values still, to plan queries: docs/security.md says what to do']
        : []),
    ],
  }
}

/** Again, where another session was in the way. */
function patienceOf(clock: Clock, signal: AbortSignal): Patiently {
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
