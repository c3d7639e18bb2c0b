/**
 * Measures time on a machine that other processes share: a pause in which this process could not run counts as one
 * tick.
 *
 * Invariant: never more than the wall clock, and equal to it while this process is scheduled.
 */

const TICK_MS = 10
/** The part of the time between two ticks that counts: a timer that is slightly late is no pause. */
const MAX_MS = 5 * TICK_MS

export interface OwnTime extends Disposable {
  /** Milliseconds since it was started. */
  readonly milliseconds: number
}

export function startOwnTime(now: () => number = () => performance.now()): OwnTime {
  let counted = 0
  let last = now()
  const count = () => {
    const at = now()
    counted += Math.min(at - last, MAX_MS)
    last = at
  }
  const ticks = setInterval(count, TICK_MS)
  ticks.unref()
  return {
    get milliseconds() {
      count()
      return counted
    },
    [Symbol.dispose]: () => clearInterval(ticks),
  }
}
