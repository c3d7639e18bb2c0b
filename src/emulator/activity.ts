/**
 * Background activity: creates and deletes patients, sends, answers, archives and edits forms and packets, at a given
 * rate.
 *
 * Invariant: the n-th change depends only on the seed and the state of the world; nothing changes after `signal`
 * aborts.
 */

import { CHANGES, type Change } from './clinic/changes.ts'
import type { Clock } from './clock.ts'
import { Draw, keyOf } from './world/draw.ts'
import type { World } from './world/world.ts'

/** Changes `world` `rate` times a second until `signal` aborts. */
export function startActivity(
  world: World,
  rate: number,
  seed: string,
  clock: Clock,
  signal: AbortSignal,
): void {
  const key = keyOf(seed, 'activity')
  const start = clock.now()
  let done = 0
  const run = async () => {
    while (!signal.aborted) {
      await clock.sleep(Math.max(10, 1000 / rate), signal)
      const due = Math.floor(((clock.now() - start) / 1_000_000) * rate)
      for (; done < due && !signal.aborted; done += 1) changeSomething(world, new Draw(key, done))
    }
  }
  void run()
}

/** Kinds of change to try before this change is skipped. */
const TRIES = 8

/** Makes one change, chosen by `draw`. */
export function changeSomething(world: World, draw: Draw): void {
  for (let left = TRIES; left > 0; left -= 1) {
    if (drawn(draw)(world, draw)) return
  }
}

const TOTAL = CHANGES.reduce((sum, [weight]) => sum + weight, 0)

function drawn(draw: Draw): Change {
  let place = draw.below(TOTAL)
  for (const [weight, change] of CHANGES) {
    if (place < weight) return change
    place -= weight
  }
  return CHANGES[0]![1]
}
