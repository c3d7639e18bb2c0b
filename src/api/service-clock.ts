/**
 * The offset between the service's clock and ours (law 2).
 *
 * An answer whose `Date` is D (whole seconds, cut off) was written between `startedAt` and `receivedAt` of our clock,
 * so service − ours is in [D − receivedAt, D + 1 s − startedAt]. Each sample narrows the interval.
 *
 * Invariant: once fixed, the offset never changes within the run, so the order of our own reads is the order of our
 * own clock; and it is the interval's lower end, so `observedAt` is never later than the moment, in the service's
 * clock, at which the state was read.
 */

/** The times of one answer: ours in microseconds, `serviceDate` in milliseconds. */
export interface ClockSample {
  readonly startedAt: number
  readonly receivedAt: number
  readonly serviceDate: number | null
}

export interface ServiceClock {
  /** Adds a sample; has no effect once the offset is fixed. */
  sample(answer: ClockSample): void
  /**
   * Microseconds to add to our clock for a lower bound in the service's clock; zero if no answer had a `Date`. Fixes the
   * offset.
   */
  offset(): number
  /** `startedAt` in the service's clock, a lower bound, as `YYYY-MM-DDTHH:MM:SS.ffffffZ`. */
  observedAt(startedAt: number): string
  /** Seconds by which the service's clock is at least ahead (positive) or behind (negative); 0 if they may agree. */
  skewSeconds(): number
}

const SECOND = 1_000_000

export function openServiceClock(): ServiceClock {
  let lower = Number.NEGATIVE_INFINITY
  let upper = Number.POSITIVE_INFINITY
  let least = Number.POSITIVE_INFINITY
  let fixed: number | null = null

  function sample({ startedAt, receivedAt, serviceDate }: ClockSample): void {
    if (serviceDate === null || fixed !== null) return
    const date = serviceDate * 1000
    lower = Math.max(lower, date - receivedAt)
    least = Math.min(least, date - receivedAt)
    upper = Math.min(upper, date + SECOND - startedAt)
  }

  function offset(): number {
    // Samples that contradict each other (a clock that jumped, several machines behind one address) leave the
    // interval empty; the least of their lower ends is then the bound that all of them allow.
    fixed ??= lower === Number.NEGATIVE_INFINITY ? 0 : lower <= upper ? lower : least
    return fixed
  }

  function skewSeconds(): number {
    if (lower === Number.NEGATIVE_INFINITY) return 0
    const [least, most] = lower <= upper ? [lower, upper] : [upper, lower]
    return (least > 0 ? least : Math.min(most, 0)) / SECOND
  }

  return {
    sample,
    offset,
    observedAt: (startedAt) => canonicalTime(startedAt + offset()),
    skewSeconds,
  }
}

/** An instant in microseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.ffffffZ`, in UTC. */
export function canonicalTime(micros: number): string {
  const milliseconds = Math.floor(micros / 1000)
  const rest = String(Math.trunc(micros - milliseconds * 1000)).padStart(3, '0')
  return `${new Date(milliseconds).toISOString().slice(0, -1)}${rest}Z`
}
