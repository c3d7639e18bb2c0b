/**
 * The history of runs, and their locks on the streams that they write as a whole.
 *
 * Invariant: a run with status `running` is running: it has unfinished slices, or a process holds its lock for its lifetime;
 * the next run marks those with neither as interrupted. Of a run whose process ended, workers continue the slices until another
 * run wants the streams.
 */
import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { lockHolders, tryLock, unlock } from '../warehouse/locks.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { closeAbandoned, endAbandoned, openCancellation } from './cancel-run.ts'
import { isGoingOn } from './claims.ts'
import { plannedRunOf, type RunKind } from './slice.ts'

export type RunStatus = 'succeeded' | 'failed' | 'needs_attention' | 'interrupted'

export interface StreamReport {
  readonly status: RunStatus
  readonly requests: number
  readonly throttled: number
  readonly fetched: number
  readonly changed: number
  readonly unchanged: number
  readonly deleted: number
  /** Records of erased patients, which are skipped. */
  readonly erased: number
  readonly deadLetters: number
  readonly problems: number
  readonly seconds: number
  /** Why it failed or needs a person; null when it succeeded. */
  readonly note: string | null
}

/** Begins a run on `session`, which must stay open until `finishRun`. */
export async function beginRun(session: Session, kind: RunKind, options: unknown): Promise<string> {
  await markInterrupted(session)
  // The lock outlives the transaction and is taken before the run is visible, so that no session sees it unlocked.
  return await session.db.transaction().execute(async (db) => {
    const { run_id } = await db
      .insertInto('intake_ops.runs')
      .values({ kind, options: JSON.stringify(options), error: null })
      .returning('run_id')
      .executeTakeFirstOrThrow()
    await tryLock({ db }, 'run', run_id)
    return run_id
  })
}

export async function finishRun(
  db: Kysely<Warehouse>,
  runId: string,
  status: RunStatus,
  error: string | null,
): Promise<void> {
  await db
    .updateTable('intake_ops.runs')
    .set({ status, error, finished_at: sql<Date>`now()` })
    .where('run_id', '=', runId)
    .execute()
}

export interface BegunRun {
  readonly url: string
  /** Null for a dry run, which stores nothing. */
  readonly runId: string | null
  /** Of `beginRun`. */
  readonly session: Session
  readonly signal: AbortSignal
}

/**
 * Executes a run that has begun, with a signal that also aborts when the run is canceled; stores why it throws, and throws
 * the error. Uses a session of its own for that, because the loss of the run's session may be the reason. Where the
 * warehouse cannot be reached, the next run marks this one.
 */
export async function withinRun<Result>(
  { url, runId, session, signal }: BegunRun,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  if (runId === null) return await work(signal)
  let stopping = signal
  try {
    using cancellation = await openCancellation(session, { url, runId, signal })
    stopping = cancellation.signal
    return await work(stopping)
  } catch (thrown) {
    const error = warehouseError(thrown)
    await storeFailure(url, runId, stopping.aborted ? 'interrupted' : 'failed', error)
    throw error
  }
}

/** Ends the run, unless workers continue it. */
export async function storeFailure(
  url: string,
  runId: string,
  status: RunStatus,
  { message, hint }: IntakeError,
): Promise<void> {
  try {
    await using session = await openSession({ url, purpose: 'end of a run' })
    if (await isGoingOn(session.db, runId)) return
    const error = hint === undefined ? message : `${message} — ${hint}`
    await closeAbandoned(session.db, runId, { status, error })
  } catch {
    // The caller reports its own error.
  }
}

export async function recordStream(
  db: Kysely<Warehouse>,
  key: { readonly runId: string; readonly teamId: number; readonly stream: StreamName },
  report: StreamReport,
): Promise<void> {
  const { deadLetters, ...counts } = report
  await db
    .insertInto('intake_ops.run_streams')
    .values({
      run_id: key.runId,
      team_id: key.teamId,
      stream: key.stream,
      dead_letters: deadLetters,
      ...counts,
    })
    .execute()
}

/** Marks runs whose process ended, and that no worker continues. */
export async function markInterrupted(session: Session): Promise<void> {
  const running = await session.db
    .selectFrom('intake_ops.runs')
    .select('run_id')
    .where('status', '=', 'running')
    .execute()
  for (const { run_id } of running) {
    if (await isGoingOn(session.db, run_id)) continue
    if (!(await tryLock(session, 'run', run_id))) continue
    await closeAbandoned(session.db, run_id)
    await unlock(session, 'run', run_id)
  }
}

/**
 * Locks streams of teams: either all of them, or none, with an error that names the streams that another run has locked, or
 * has planned slices of.
 * Locks last until they are released, at most as long as the session.
 */
export async function lockStreams(
  session: Session,
  streams: readonly Stream[],
  teams: readonly { readonly teamId: number; readonly name: string }[],
): Promise<void> {
  const locked: string[] = []
  const taken: string[] = []
  let holders: string | null = null
  for (const team of teams) {
    for (const stream of streams) {
      const key = keyOf(team, stream)
      let holder: string | null
      if (await tryLock(session, 'stream', key)) {
        taken.push(key)
        // Whoever plans a run has the lock until its slices are stored.
        const planned = await plannedRunOf(session.db, team.teamId, stream.name)
        if (planned === null || (await endAbandoned(session, planned))) continue
        holder = `intake-sync runs cancel ${planned}`
      } else holder = await lockHolders(session.db, 'stream', key)
      locked.push(`${stream.name} of ${team.name}`)
      holders ??= holder
    }
  }
  if (locked.length === 0) return
  for (const key of taken) await unlock(session, 'stream', key)
  throw new IntakeError(`another run holds ${locked.join(', ')}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: `wait for the other run to end, or stop it${holders === null ? '' : `: ${holders}`}`,
  })
}

/** Releases the locks of a team before the session ends. */
export async function unlockStreams(
  session: Session,
  streams: readonly Stream[],
  team: { readonly teamId: number },
): Promise<void> {
  for (const stream of streams) await unlock(session, 'stream', keyOf(team, stream))
}

function keyOf({ teamId }: { readonly teamId: number }, { name }: Stream): string {
  return `${teamId}/${name}`
}
