/**
 * What has to be done now and then while events are received: partitions of the inbox ahead of time, and what is
 * old enough dropped, of events and of dead letters.
 *
 * Invariant: holds nothing up, and a failure waits for the next time; several processes may do it at once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { keepInboxDays } from '../../ingest/inbox/days.ts'
import { removeSettledBodies } from '../../load/erasures/settled-bodies.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { dropOldCounts } from '../health/received.ts'

const HOUR_MS = 3_600_000
/** What is under way at the end is not waited for any longer: it is all or nothing in the warehouse. */
const CLOSE_MS = 5_000

export interface HousekeepingOptions {
  readonly url: string
  readonly inboxDays: number
  readonly logger: Logger
}

/** The first time is over when it returns. */
export async function openHousekeeping(options: HousekeepingOptions): Promise<AsyncDisposable> {
  let working = keepHouse(options)
  await working
  const timer = setInterval(() => {
    working = working.then(() => keepHouse(options))
  }, HOUR_MS)
  timer.unref()
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer)
      const late = new AbortController()
      await Promise.race([working, sleep(CLOSE_MS, undefined, late).catch(() => {})])
      late.abort()
    },
  }
}

/** Never throws. */
async function keepHouse({ url, inboxDays, logger }: HousekeepingOptions): Promise<void> {
  try {
    const age = { days: inboxDays, now: new Date() }
    const done = await keepInboxDays(url, age)
    if (done.dropped > 0 || done.moved > 0) logger.info(done, 'old days of the inbox dropped')
    const bodies = await removeSettledBodies(url, age)
    if (bodies > 0) logger.info({ bodies }, 'what old dead letters held was removed')
    await dropOldCounts(url)
  } catch (error) {
    logger.warn(
      { code: warehouseError(error).code },
      'the inbox could not be tidied; it is tried again in an hour',
    )
  }
}
