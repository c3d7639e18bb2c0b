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
import { openNotifier } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { boundedQuery } from '../../warehouse/bounded-queries.ts'
import { tryLock, unlock } from '../../warehouse/locks.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { openWebhookChecks, type WebhookChecks } from '../health/webhook-checks.ts'
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

interface RoundOptions {
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
type RoundOutcome = 'posted' | 'quiet' | 'taken' | 'failed'

const LIMIT_MS = 30_000

export interface RoundScope {
  /** Judges every cause, not only the inbox. */
  readonly thorough: boolean
  /** Posts also when the next attempt after a failure is not due yet. */
  readonly insist: boolean
}

export async function runRound(options: RoundOptions, scope: RoundScope): Promise<RoundOutcome> {
  const { url, logger, signal } = options
  try {
    return await boundedQuery({ url, purpose: 'alerts', milliseconds: LIMIT_MS }, async (db) => {
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
): Promise<RoundOutcome> {
  const current = await readAlerts(db, teams)
  const raised = new Set(current.filter(isRaised).map(keyOf))
  const found = await findConditions(db, { ...settings, teams, webhookChecks, thorough, raised })
  if (found.late.length > 0) logger.warn({ late: found.late }, 'some alerts could not be evaluated in time')
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

/**
 * The alerts of `serve`: a round at each interval, and after each run.
 *
 * Invariant: no other part waits for a round. Several processes may watch one warehouse; one of them runs a round at a
 * time.
 */
export interface WatchOptions extends Omit<RoundOptions, 'signal' | 'webhookChecks'> {
  readonly inboxDays: number
  /** Called after each post. */
  readonly onPosted: (delivered: boolean) => void
  /** Interval of rounds. Default: 15 seconds. */
  readonly everyMs?: number
}

export interface AlertWatch extends AsyncDisposable {
  /** Starts a thorough round now, for example when a run has ended. */
  wake(): void
}

const EVERY_MS = 15_000
/** Each fourth round is thorough; the others judge only the inbox. */
const THOROUGH_EVERY = 4
/** Closing waits this long for a round in progress. The next round, of any process, posts the rest. */
const CLOSE_MS = 5_000

/** The first round starts after one interval, so that events from before the start are drained first. */
export function openAlerts({ onPosted, everyMs = EVERY_MS, inboxDays, ...others }: WatchOptions): AlertWatch {
  const { clock } = others
  const options = { ...others, webhookChecks: openWebhookChecks({ inboxDays }) }
  const stop = new AbortController()
  const notifier = openNotifier(clock)
  const rounds = async () => {
    for (let round = 0, seen = notifier.count; ; round += 1) {
      await notifier.wait(seen, everyMs)
      if (stop.signal.aborted) return
      const thorough = notifier.count > seen || round % THOROUGH_EVERY === 0
      seen = notifier.count
      const outcome = await runRound({ ...options, signal: stop.signal }, { thorough, insist: false })
      if (isPost(outcome)) onPosted(outcome === 'posted')
    }
  }
  const done = rounds()
  return {
    wake: notifier.notify,
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      notifier.notify()
      const ended = new AbortController()
      await Promise.race([done, clock.sleep(CLOSE_MS, ended.signal).catch(() => {})])
      ended.abort()
    },
  }
}

function isPost(outcome: RoundOutcome): boolean {
  return outcome === 'posted' || outcome === 'failed'
}
