/**
 * The history of runs, and their locks on the streams that they write as a whole.
 *
 * Invariant: a run with status `running` is running: it has unfinished slices, or a process holds its lock for its lifetime;
 * the next run marks those with neither as interrupted. If the process of a backfill ends, workers continue its slices, until
 * another backfill needs the streams.
 */
import { type Kysely, sql } from 'kysely'
import { systemClock } from '../core/clock.ts'
import type { StreamName } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { lockHolders, tryLock, unlock } from '../warehouse/locks.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { openCancellation } from './cancel-run.ts'
import { goesOn } from './claims.ts'
import {
  cancelSlices,
  closeAbandoned,
  freeAbandoned,
  isAbandoned,
  type ReservedStream,
} from './lost-slices.ts'
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

const TRIES = 5
const PAUSE_MS = 200

/** Ends the run; one that failed goes on, if workers execute it. */
export async function storeFailure(
  url: string,
  runId: string,
  status: 'failed' | 'interrupted',
  { message, hint }: IntakeError,
): Promise<void> {
  try {
    await using session = await openSession({ url, purpose: 'end of a run' })
    const { db } = session
    if (status === 'failed' && (await goesOn(db, runId))) return
    const end = { status, error: hint === undefined ? message : `${message} — ${hint}` }
    // Postgres may not have noticed yet that the sessions of this process have ended.
    for (let tries = 0; tries < TRIES && !(await closeAbandoned(db, runId, end)); tries++) {
      await cancelSlices(db, runId, sql`true`, end.error)
      await systemClock.sleep(PAUSE_MS)
    }
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
    if (await goesOn(session.db, run_id)) continue
    if (!(await tryLock(session, 'run', run_id))) continue
    await closeAbandoned(session.db, run_id)
    await unlock(session, 'run', run_id)
  }
}

/**
 * Locks streams of teams: either all of them, or none, with an error that names the streams that another run has locked, or
 * has planned slices of. Streams of a run whose process ended are taken from it: those that workers execute only if the new
 * run `replaces` it. Locks last until they are released, at most as long as the session.
 */
export async function lockStreams(
  session: Session,
  streams: readonly Stream[],
  teams: readonly { readonly teamId: number; readonly name: string }[],
  { replaces = false }: { readonly replaces?: boolean } = {},
): Promise<void> {
  const taken: string[] = []
  const reserved: ReservedStream[] = []
  const refused: string[] = []
  let holder: string | null = null
  for (const team of teams) {
    for (const stream of streams) {
      const key = keyOf(team, stream)
      const what = `${stream.name} of ${team.name}`
      if (!(await tryLock(session, 'stream', key))) {
        refused.push(what)
        holder ??= await lockHolders(session.db, 'stream', key)
        continue
      }
      taken.push(key)
      // Whoever plans a run has the lock until its slices are stored.
      const runId = await plannedRunOf(session.db, team.teamId, stream.name)
      if (runId === null) continue
      const place = { runId, teamId: team.teamId, stream: stream.name }
      if (await isAbandoned(session.db, place, replaces)) reserved.push(place)
      else {
        refused.push(what)
        holder ??= `intake-sync runs cancel ${runId}`
      }
    }
  }
  if (refused.length === 0) {
    for (const place of reserved) {
      // A worker may have claimed it since.
      if (await freeAbandoned(session, place, replaces)) continue
      refused.push(`${place.stream} of ${teams.find(({ teamId }) => teamId === place.teamId)!.name}`)
      holder ??= `intake-sync runs cancel ${place.runId}`
    }
    if (refused.length === 0) return
  }
  for (const key of taken) await unlock(session, 'stream', key)
  throw new IntakeError(`another run holds ${refused.join(', ')}; nothing was started`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: `wait for the other run to end, or stop it${holder === null ? '' : `: ${holder}`}`,
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
