import { setImmediate as turn } from 'node:timers/promises'
import type { Clock } from '../../src/emulator/clock.ts'

/** Time that passes only on demand, and wakes sleepers in the order of their times. */
export function makeTime(start: number) {
  let now = start
  const sleepers: { at: number; wake: () => void }[] = []
  const settled = async () => {
    for (let left = 15; left > 0; left -= 1) await turn()
  }
  const clock: Clock = {
    now: () => now,
    sleep: (milliseconds, signal) =>
      new Promise((resolve) => {
        if (milliseconds === 0 || signal?.aborted === true) setImmediate(resolve)
        else sleepers.push({ at: now + Math.round(milliseconds * 1000), wake: resolve })
        signal?.addEventListener('abort', () => resolve(), { once: true })
      }),
  }
  async function pass(milliseconds: number): Promise<void> {
    const end = now + Math.round(milliseconds * 1000)
    for (;;) {
      sleepers.sort((a, b) => a.at - b.at)
      if (sleepers[0] === undefined || sleepers[0].at > end) break
      const { at, wake } = sleepers.shift()!
      now = Math.max(now, at)
      wake()
      await settled()
    }
    now = end
    await settled()
  }
  return { clock, settled, pass, milliseconds: () => (now - start) / 1000 }
}
