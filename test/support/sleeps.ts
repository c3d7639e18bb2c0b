/** A clock that knows who sleeps: a timer that is left when all is closed keeps its process alive. */
import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from '../../src/core/clock.ts'

export interface WatchedClock {
  readonly clock: Clock
  /** Those that sleep now, by their milliseconds; looks for a new event, of less than a second, are left out. */
  sleeping(): Promise<readonly number[]>
}

export function openWatchedClock(): WatchedClock {
  const sleepers = new Set<{ readonly milliseconds: number }>()
  const sleep: Clock['sleep'] = async (milliseconds, signal) => {
    const sleeper = { milliseconds }
    sleepers.add(sleeper)
    try {
      await systemClock.sleep(milliseconds, signal)
    } finally {
      sleepers.delete(sleeper)
    }
  }
  return {
    clock: { ...systemClock, sleep },
    async sleeping() {
      // Those that were woken just now have left.
      await setImmediate()
      return [...sleepers].map(({ milliseconds }) => milliseconds).filter((each) => each >= 1_000)
    },
  }
}
