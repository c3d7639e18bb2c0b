/**
 * Hourly housekeeping of `serve`: creates partitions of the inbox ahead of time, and drops old events, old bodies
 * of dead letters, old counts, and what is older than its retention.
 *
 * Invariant: no other part waits for it. A failure is retried after an hour. Several processes may run it concurrently.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { keepInboxDays } from '../../ingest/inbox/days.ts'
import { removeSettledBodies } from '../../load/erased-dead-letters.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { dropOldCounts } from '../health/received.ts'
import { settleDeliveries } from '../health/silence-signs.ts'
import { prune, type Retention } from './retention.ts'

const HOUR_MS = 3_600_000
/** Retention of one round; the next goes on. */
const PRUNE_MS = 600_000
/** Closing waits this long for a round in progress; each of its statements is atomic. */
const CLOSE_MS = 5_000

export interface HousekeepingOptions {
  readonly url: string
  readonly inboxDays: number
  /** Default: everything is kept for ever. */
  readonly retention?: Retention | undefined
  readonly logger: Logger
}

/** Resolves after the first round. */
export async function openHousekeeping(options: HousekeepingOptions): Promise<AsyncDisposable> {
  let working = runHousekeeping(options)
  await working
  const timer = setInterval(() => {
    working = working.then(() => runHousekeeping(options))
  }, HOUR_MS)
  timer.unref()
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer)
      const timeout = new AbortController()
      await Promise.race([working, sleep(CLOSE_MS, undefined, timeout).catch(() => {})])
      timeout.abort()
    },
  }
}

/** Never throws. */
async function runHousekeeping({ url, inboxDays, retention, logger }: HousekeepingOptions): Promise<void> {
  try {
    const age = { days: inboxDays, now: new Date() }
    const done = await keepInboxDays(url, age)
    if (done.dropped > 0 || done.moved > 0) logger.info(done, 'old days of the inbox dropped')
    const bodies = await removeSettledBodies(url, age)
    if (bodies > 0) logger.info({ bodies }, 'old bodies of dead letters removed')
    await dropOldCounts(url)
    await settleDeliveries(url, inboxDays)
    if (retention === undefined) return
    const pruned = await prune({ ...retention, url, now: age.now, forMs: PRUNE_MS })
    if (Object.values(pruned).some((count) => count > 0)) logger.info(pruned, 'expired rows removed')
  } catch (error) {
    logger.warn({ code: warehouseError(error).code }, 'housekeeping failed; retried in an hour')
  }
}
