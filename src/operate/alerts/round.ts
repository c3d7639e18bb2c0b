/**
 * One round of alerts: find conditions, raise and clear alerts, post the changes.
 *
 *     lock ─► conditions ─► intake_ops.alerts ─► post ─► posted
 *
 * Invariant: never throws, and ends within its time limit whatever the warehouse and the receiver do. A lock allows one
 * round at a time, so that several processes post an alert once. If a process ends between the post and its commit,
 * the alert is posted again under the same id.
 */
import type { Kysely } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { glance } from '../../warehouse/glance.ts'
import { tryLock, unlock } from '../../warehouse/locks.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { WebhookChecks } from '../health/webhook-checks.ts'
import {
  isRaised,
  readAlerts,
  recordFailure,
  recordPosted,
  statusToPost,
  updateAlerts,
} from './alert-rows.ts'
import { keyOf } from './causes.ts'
import { findConditions, type Limits } from './conditions.ts'
import { post, type Receiver } from './post.ts'

export interface AlertSettings extends Limits, Receiver {}

export interface RoundOptions {
  /** Connection string of a migrated warehouse. */
  readonly url: string
  readonly settings: AlertSettings
  readonly teams: readonly string[]
  /** Shared by all rounds: teams that one round does not reach come first in the next. */
  readonly webhookChecks: WebhookChecks
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly version: string
}

/**
 * - `quiet`: nothing to post, or the next attempt after a failure is not due yet.
 * - `taken`: another process has the lock.
 */
export type Outcome = 'posted' | 'quiet' | 'taken' | 'failed'

const LIMIT_MS = 30_000

export interface RoundScope {
  /** Judges every cause, not only the inbox. */
  readonly thorough: boolean
  /** Posts also when the next attempt after a failure is not due yet. */
  readonly insist: boolean
}

export async function runRound(options: RoundOptions, scope: RoundScope): Promise<Outcome> {
  const { url, logger, signal } = options
  try {
    return await glance({ url, purpose: 'alerts', milliseconds: LIMIT_MS }, async (db) => {
      if (!(await tryLock({ db }, 'alerts', 'alerts'))) return 'taken'
      // Released here, because Postgres releases the locks of an ended session a moment after its end.
      const release = () => unlock({ db }, 'alerts', 'alerts').catch(() => {})
      return await runUnderLock(db, options, scope).finally(release)
    })
  } catch (error) {
    const { code, message, hint } = error instanceof IntakeError ? error : warehouseError(error)
    if (!signal.aborted) logger.warn({ code, hint }, `alerts are delayed: ${message}`)
    return 'failed'
  }
}

async function runUnderLock(
  db: Kysely<Warehouse>,
  { settings, teams, webhookChecks, clock, logger, signal, version }: RoundOptions,
  { thorough, insist }: RoundScope,
): Promise<Outcome> {
  const current = await readAlerts(db, teams)
  const raised = new Set(current.filter(isRaised).map(keyOf))
  const found = await findConditions(db, { ...settings, teams, webhookChecks, thorough, raised })
  if (found.late.length > 0) logger.warn({ late: found.late }, 'some alerts could not be judged in time')
  await updateAlerts(db, current, found)
  const waiting = (await readAlerts(db, teams)).filter((row) => statusToPost(row) !== null)
  if (waiting.length === 0 || !(insist || waiting.some(({ is_due }) => is_due))) return 'quiet'
  try {
    await post(settings, waiting, { now: new Date(clock.now() / 1000), signal, version })
  } catch (error) {
    if (signal.aborted) return 'failed'
    await recordFailure(db, waiting)
    throw error
  }
  await recordPosted(db, waiting)
  logger.info({ alerts: waiting.length }, 'alerts posted')
  return 'posted'
}
