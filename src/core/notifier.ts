/** Wakes who waits. Invariant: a ring is never missed, also one that comes between looking for work and waiting. */
import type { Clock } from './clock.ts'

export interface Bell {
  /** How often it rang. */
  readonly rung: number
  ring(): void
  /** Resolves when it has rung more than `heard` times, or after `milliseconds`. */
  wait(heard: number, milliseconds: number): Promise<void>
}

export function openBell(clock: Clock): Bell {
  const waiting = new Set<AbortController>()
  let rung = 0
  return {
    get rung() {
      return rung
    },
    ring() {
      rung += 1
      for (const each of waiting) each.abort()
    },
    async wait(heard, milliseconds) {
      if (rung > heard) return
      const woken = new AbortController()
      waiting.add(woken)
      await clock.sleep(milliseconds, woken.signal).catch(() => {})
      waiting.delete(woken)
    },
  }
}
