/**
 * How long something takes where other machines may take the processors away: a pause in which nothing of this process
 * could run counts as one tick.
 *
 * Invariant: never more than the wall's clock says, and as much as it says while this process is let run.
 */

const TICK_MS = 10
/** Of what lies between two ticks, what counts: a timer that is a little late is no pause. */
const MOST_MS = 5 * TICK_MS

export interface OwnTime extends Disposable {
  /** Since it was started. */
  readonly milliseconds: number
}

export function startOwnTime(now: () => number = () => performance.now()): OwnTime {
  let counted = 0
  let last = now()
  const count = () => {
    const at = now()
    counted += Math.min(at - last, MOST_MS)
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
