/**
 * Time as an argument, deadlines, and waiting for work. Instants of our own clock are whole microseconds since 1970 as
 * a JavaScript number, which is exact until the year 2255.
 */
export interface Clock {
  /** Microseconds since 1970; never goes back within one process. */
  now(): number
  /** Resolves after `milliseconds`, or rejects with the signal's reason when it aborts first. */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>
}

/** The clock of this machine: microseconds since 1970. */
export const systemClock: Clock = {
  now: () => Math.round((performance.timeOrigin + performance.now()) * 1000),
  sleep: (milliseconds, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const onAbort = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }, milliseconds)
      signal?.addEventListener('abort', onAbort, { once: true })
    }),
}

/**
 * A signal that aborts after a time, or with another signal. Garbage collection never prevents the abort, and `release`
 * leaves no timer and no listener.
 *
 * Not AbortSignal.any: on Node 20 it keeps every short-lived signal alive as long as the run's own, and refers to those of
 * AbortSignal.timeout so weakly that a collection can remove them before their time.
 */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal
  /** True if the time ran out before any of the other signals aborted. */
  isOver(): boolean
  /** Cancels the timer; the other signals still abort this one. */
  stop(): void
  /** Cancels the timer and removes all listeners. Idempotent. */
  release(): void
}

/** `milliseconds` must not exceed the maximum of Node's timers, about 24 days. */
export function deadlineIn(
  milliseconds: number,
  signals: readonly AbortSignal[],
  reason: () => unknown = timedOut,
): Deadline {
  const abort = new AbortController()
  let over = false
  const timer = setTimeout(() => {
    over = !abort.signal.aborted
    abort.abort(reason())
  }, milliseconds)
  const relays = signals.map((signal) => {
    const relay = () => abort.abort(signal.reason)
    if (signal.aborted) relay()
    else signal.addEventListener('abort', relay, { once: true })
    return () => signal.removeEventListener('abort', relay)
  })
  const stop = () => clearTimeout(timer)
  const release = () => {
    stop()
    for (const unlisten of relays) unlisten()
  }
  return { signal: abort.signal, isOver: () => over, stop, release, [Symbol.dispose]: release }
}

function timedOut(): Error {
  return new DOMException('the time is up', 'TimeoutError')
}

/** Wakes waiting tasks. No notification is missed, including one between a look for work and the wait. */
interface Notifier {
  /** Notifications so far. */
  readonly count: number
  notify(): void
  /** Resolves once `count` exceeds `seen`, or after `milliseconds`. */
  wait(seen: number, milliseconds: number): Promise<void>
}

export function openNotifier(clock: Clock): Notifier {
  const waiting = new Set<AbortController>()
  let count = 0
  return {
    get count() {
      return count
    },
    notify() {
      count += 1
      for (const each of waiting) each.abort()
    },
    async wait(seen, milliseconds) {
      if (count > seen) return
      const woken = new AbortController()
      waiting.add(woken)
      await clock.sleep(milliseconds, woken.signal).catch(() => {})
      waiting.delete(woken)
    },
  }
}

/** Times of the day, in the zone of the process, and the days on which they are due. */
interface Times {
  readonly hours: readonly number[]
  readonly minutes: readonly number[]
  /** True if this time is due. On a day, either all of its times are due or none is. */
  matches(time: Date): boolean
}

/** The last time that is later than `after` and not later than `upTo`; null if there is none. */
export function lastTimeOf({ hours, minutes, matches }: Times, after: Date, upTo: Date): Date | null {
  const times = hours.flatMap((hour) => minutes.map((minute) => ({ hour, minute })))
  times.sort((one, other) => other.hour - one.hour || other.minute - one.minute)
  const [year, month] = [upTo.getFullYear(), upTo.getMonth()]
  for (let day = upTo.getDate(); new Date(year, month, day + 1) > after; day -= 1) {
    for (const { hour, minute } of times) {
      const time = new Date(year, month, day, hour, minute)
      // Where clocks go forward, some times do not exist.
      if (time > upTo || time.getHours() !== hour) continue
      if (time <= after) return null
      if (matches(time)) return time
      break
    }
  }
  return null
}
