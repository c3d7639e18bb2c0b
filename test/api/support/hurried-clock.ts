/**
 * A clock whose pauses take no time: a sleeper advances it at once, and nothing else does.
 *
 * Invariant: no two reads return the same time.
 */
import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from '../../../src/core/clock.ts'

export interface HurriedClock extends Clock {
  /** Completed pauses, in milliseconds. */
  readonly slept: readonly number[]
  /** Advances the clock; in microseconds. */
  skip(microseconds: number): void
  /** Pauses no longer end, until `go`. */
  stop(): void
  go(): void
}

export function openHurriedClock(): HurriedClock {
  const slept: number[] = []
  let present = systemClock.now()
  let stands = false
  return {
    slept,
    now: () => ++present,
    async sleep(milliseconds, signal) {
      do await setImmediate()
      while (stands && signal?.aborted !== true)
      signal?.throwIfAborted()
      present += milliseconds * 1_000
      slept.push(milliseconds)
    },
    skip: (microseconds) => {
      present += microseconds
    },
    stop: () => {
      stands = true
    },
    go: () => {
      stands = false
    },
  }
}
