import type { EmulatorOptions } from '../../src/emulator/server.ts'

/** Stands still; the service's time moves only by `control.advance`, which ends the sleep of the timeline. */
export const stillClock: NonNullable<EmulatorOptions['clock']> = {
  now: () => 1_760_000_000_000_000,
  sleep: (milliseconds, signal) =>
    new Promise((resolve) => {
      if (milliseconds === 0 || signal?.aborted === true) setImmediate(resolve)
      else signal?.addEventListener('abort', () => resolve(), { once: true })
    }),
}
