/**
 * One round of alerts: look, note what is new or over, post what was not told.
 *
 *     lock ─► conditions ─► intake_ops.alerts ─► post ─► told
 *
 * Invariant: never throws, and ends within its limit whatever the warehouse and the receiver do. One process at a
 * time goes round, so that what several find is told once; a process that dies between the post and the note of it
 * has it told twice, with the same id.
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
import { keyOf } from './causes.ts'
import { findConditions, type Limits } from './conditions.ts'
import { isRaised, noteFailed, noteFound, noteTold, readLedger, untold } from './ledger.ts'
import { post, type Receiver } from './post.ts'

export interface AlertSettings extends Limits, Receiver {}

export interface RoundOptions {
  /** Of the warehouse, which is migrated. */
  readonly url: string
  readonly settings: AlertSettings
  readonly teams: readonly string[]
  /** Kept from round to round: whom one does not get to comes first in the next. */
  readonly webhookChecks: WebhookChecks
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly version: string
}

/**
 * - `quiet`: there was nothing to tell, or what failed before is not due yet.
 * - `taken`: another process is at it.
 */
export type Outcome = 'told' | 'quiet' | 'taken' | 'failed'

const LIMIT_MS = 30_000

export interface RoundAsked {
  /** All of it, not the inbox alone. */
  readonly thorough: boolean
  /** Also what is not due yet after a post that failed. */
  readonly insist: boolean
}

export async function goRound(options: RoundOptions, asked: RoundAsked): Promise<Outcome> {
  const { url, logger, signal } = options
  try {
    return await glance({ url, purpose: 'alerts', milliseconds: LIMIT_MS }, async (db) => {
      if (!(await tryLock({ db }, 'alerts', 'alerts'))) return 'taken'
      // Given back here: Postgres gives back what an ended session held a moment after its end.
      const release = () => unlock({ db }, 'alerts', 'alerts').catch(() => {})
      return await tellUnderLock(db, options, asked).finally(release)
    })
  } catch (error) {
    const { code, message, hint } = error instanceof IntakeError ? error : warehouseError(error)
    if (!signal.aborted) logger.warn({ code, hint }, `alerts wait: ${message}`)
    return 'failed'
  }
}

async function tellUnderLock(
  db: Kysely<Warehouse>,
  { settings, teams, webhookChecks, clock, logger, signal, version }: RoundOptions,
  { thorough, insist }: RoundAsked,
): Promise<Outcome> {
  const held = await readLedger(db, teams)
  const raised = new Set(held.filter(isRaised).map(keyOf))
  const found = await findConditions(db, { ...settings, teams, webhookChecks, thorough, raised })
  if (found.late.length > 0) logger.warn({ late: found.late }, 'some alerts could not be judged in time')
  await noteFound(db, held, found)
  const waiting = (await readLedger(db, teams)).filter((entry) => untold(entry) !== null)
  if (waiting.length === 0 || !(insist || waiting.some(({ is_due }) => is_due))) return 'quiet'
  try {
    await post(settings, waiting, { now: new Date(clock.now() / 1000), signal, version })
  } catch (error) {
    if (signal.aborted) return 'failed'
    await noteFailed(db, waiting)
    throw error
  }
  await noteTold(db, waiting)
  logger.info({ alerts: waiting.length }, 'alerts posted')
  return 'told'
}
