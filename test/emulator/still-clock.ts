import type { EmulatorOptions } from '../../src/emulator/server.ts'

type Clock = NonNullable<EmulatorOptions['clock']>

/** Stands still at `now`, in microseconds; the service's time moves only by `control.advance`, which ends the sleep of the timeline. */
export const stillAt = (now: number): Clock => ({
  now: () => now,
  sleep: (milliseconds, signal) =>
    new Promise((resolve) => {
      if (milliseconds === 0 || signal?.aborted === true) setImmediate(resolve)
      else signal?.addEventListener('abort', () => resolve(), { once: true })
    }),
})

export const stillClock = stillAt(1_760_000_000_000_000)
