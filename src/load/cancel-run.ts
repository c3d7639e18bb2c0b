/**
 * Ends a run from another process.
 *
 * Invariant: a canceled run stops as one that a signal stops: what it loaded stays, and the next run continues. The login
 * that cancels is stored first, and a notification alone ends nothing, since every login of the database can send one.
 */
import { setMaxListeners } from 'node:events'
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../core/clock.ts'
import { IntakeError } from '../core/errors.ts'
import { boundedQuery } from '../warehouse/bounded-queries.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { tryLock, unlock } from '../warehouse/locks.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { hasSlices } from './claims.ts'
import { cancelSlices, releaseLost } from './lost-slices.ts'
import { settlePending, storeEnd } from './slice.ts'

const CHANNEL = 'intake_canceled_runs'
const LIMIT_MS = 5_000
const POLL_MS = 100
/** Between two looks at whether the run was canceled, while the warehouse cannot say. */
const RETRY_MS = 1_000

export const STOPPED = 'stopped by a signal'

/** Why a run was aborted that somebody canceled. */
export class Canceled extends Error {}

/** Why a run stopped before its end, for its note. */
export function whyStopped({ reason }: AbortSignal): string {
  return reason instanceof Canceled ? reason.message : STOPPED
}

export function canceledBy(login: string): string {
  return `canceled by database user ${login}, with intake-sync runs cancel`
}

export function isCanceled({ reason }: AbortSignal): boolean {
  return reason instanceof Canceled
}

export interface Cancellation extends Disposable {
  /** Aborts when the run is canceled, and when the given signal aborts. */
  readonly signal: AbortSignal
}

/** Listens on the session of the run, which ends soon after it. */
export async function openCancellation(
  { client, db }: Session,
  { url, runId, signal }: { readonly url: string; readonly runId: string; readonly signal: AbortSignal },
): Promise<Cancellation> {
  const canceled = new AbortController()
  // Every team and request listens; many listeners are no leak.
  setMaxListeners(0, canceled.signal)
  const relay = () => canceled.abort(signal.reason)
  signal.addEventListener('abort', relay, { once: true })
  if (signal.aborted) relay()
  const endIfCanceled = async (db: Kysely<Warehouse>) => {
    const { rows } = await sql<{ login: string | null }>`
      select canceled_by as login from intake_ops.runs where run_id = ${runId}`.execute(db)
    const login = rows[0]?.login ?? null
    if (login !== null) canceled.abort(new Canceled(canceledBy(login)))
  }
  let isOver = false
  let retry: NodeJS.Timeout | undefined
  let looking: Promise<void> | null = null
  /** True if a notification arrived during a look, which may have read the run before somebody canceled it. */
  let isAsked = false
  const look = () => {
    clearTimeout(retry)
    retry = undefined
    isAsked = looking !== null
    if (isOver || canceled.signal.aborted || isAsked) return
    // The session of the run may be in a transaction.
    looking = boundedQuery({ url, purpose: 'canceled run', milliseconds: LIMIT_MS }, endIfCanceled)
      .catch(() => {
        // Nobody sends the notification again.
        retry ??= setTimeout(look, RETRY_MS).unref()
      })
      .finally(() => {
        looking = null
        if (isAsked) look()
      })
  }
  const onNotification = ({ channel, payload }: { channel: string; payload?: string | undefined }) => {
    if (channel === CHANNEL && payload === runId) look()
  }
  client.on('notification', onNotification)
  await client.query(`listen ${CHANNEL}`)
  // Somebody may have canceled the run before it listened.
  await endIfCanceled(db)
  return {
    signal: canceled.signal,
    [Symbol.dispose]() {
      isOver = true
      clearTimeout(retry)
      signal.removeEventListener('abort', relay)
      client.off('notification', onNotification)
    },
  }
}

export interface CanceledRun {
  /** As stored now: `running` while the run ends the batches that it is loading. */
  readonly status: string
  /** False for a run that had ended before. */
  readonly canceled: boolean
}

/** Cancels a run and waits until it has ended, at most `forMs`. Throws where there is no such run. */
export async function cancelRun(
  { url, clock, forMs }: { readonly url: string; readonly clock: Clock; readonly forMs: number },
  runId: number,
): Promise<CanceledRun> {
  await using session = await openSession({ url, purpose: 'cancel a run' })
  const { numAffectedRows } = await sql`
    update intake_ops.runs set canceled_by = coalesce(canceled_by, session_user)
    where run_id = ${runId} and status = 'running'`.execute(session.db)
  await sql`select pg_notify(${CHANNEL}, ${String(runId)})`.execute(session.db)
  const until = clock.now() + forMs * 1_000
  for (;;) {
    const status = await statusOf(session, runId)
    if (status === 'running' && (await hasSlices(session.db, String(runId)))) {
      await closeCanceled(session.db, String(runId), await noteOf(session, runId))
    }
    if (status !== 'running' || clock.now() >= until) return { status, canceled: numAffectedRows === 1n }
    await clock.sleep(POLL_MS)
  }
}

async function noteOf({ db }: Session, runId: number): Promise<string> {
  const { rows } = await sql<{ login: string }>`
    select canceled_by as login from intake_ops.runs where run_id = ${runId}`.execute(db)
  return `${canceledBy(rows[0]!.login)}; the next run continues`
}

/**
 * Ends a canceled run that no worker executes: settles what is pending and closes it. For as long as workers load what they
 * have read it does the first only; they close the run, or whoever calls this next.
 */
async function closeCanceled(db: Kysely<Warehouse>, runId: string, note: string): Promise<void> {
  await releaseLost(db)
  await db.transaction().execute(async (transaction) => {
    const { rows } = await sql<{ slice_id: string }>`
      select slice_id from intake_ops.slices where run_id = ${runId} and team_id is null and state = 'pending'
      for update skip locked`.execute(transaction)
    if (rows[0] === undefined) return
    await settlePending(transaction, { runId }, 'canceled', { status: 'interrupted', note })
    const { rows: open } = await sql`
      select from intake_ops.slices
      where run_id = ${runId} and team_id is not null and state in ('pending', 'claimed') limit 1`.execute(
      transaction,
    )
    if (open.length > 0) return
    await storeEnd(transaction, runId, 'interrupted')
    await sql`
      update intake_ops.slices set state = 'canceled', settled_at = now() where slice_id = ${rows[0].slice_id}`.execute(
      transaction,
    )
  })
}

/**
 * Ends a run whose process a signal stops: settles every stream that `owner` does not execute, also those that other workers
 * have. Without an owner, closes the run too.
 */
export async function stopRun(db: Kysely<Warehouse>, runId: string, owner: string | null): Promise<void> {
  const note = `${STOPPED}; the next run continues`
  const isOthers = sql<boolean>`owner is distinct from ${owner}`
  await cancelSlices(db, runId, isOthers, note)
  if (owner === null) await closeCanceled(db, runId, note)
}

/** As stored; of a run whose process is gone, what the next run stores. */
async function statusOf(session: Session, runId: number): Promise<string> {
  const name = String(runId)
  const status = await storedStatus(session, runId)
  if (status === 'running' && (await hasSlices(session.db, name))) return status
  if (status !== 'running' || !(await tryLock(session, 'run', name))) return status
  await unlock(session, 'run', name)
  // It may have ended since the first look.
  const again = await storedStatus(session, runId)
  return again === 'running' ? 'interrupted' : again
}

async function storedStatus({ db }: Session, runId: number): Promise<string> {
  const { rows } = await sql<{ status: string }>`
    select status from intake_ops.runs where run_id = ${runId}`.execute(db)
  if (rows[0] !== undefined) return rows[0].status
  throw unknownRun(runId)
}

export function unknownRun(runId: number): IntakeError {
  return new IntakeError(`there is no run ${runId}`, {
    code: 'unknown_run',
    verdict: 'stop',
    hint: 'intake-sync runs lists the newest ones',
  })
}
