/** Wakes waiting tasks. Invariant: no notification is missed, including one between a look for work and the wait. */
import type { Clock } from './clock.ts'

export interface Notifier {
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
