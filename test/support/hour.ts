/** For tests that count events by the hour, or rows by the day, while they run. */
import { setTimeout as sleep } from 'node:timers/promises'

const HOUR_MS = 3_600_000
/** Longer than such a test takes. */
const AMPLE_MS = 20_000

/** Returns at once, except shortly before an hour ends: then when the next has begun. */
export async function awayFromTheHour(): Promise<void> {
  const left = HOUR_MS - (Date.now() % HOUR_MS)
  if (left < AMPLE_MS) await sleep(left + 100)
}
