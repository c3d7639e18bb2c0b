/**
 * Keeps the young generation of the heap at four MiB a half, as `node --max-semi-space-size=4` does, in a process that
 * was started without that flag: its collections take one or two milliseconds in place of ten or more, which bounds the
 * time to the slowest answers.
 *
 * Invariant: V8 never enlarges it on its own, because the factor by which it grows is one. That factor, unlike the size,
 * counts whenever it is set (Node 20 to 26). V8 gives memory back while little is allocated; once much is allocated
 * again, the size is restored here.
 */
import { PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Both halves. */
const WANTED = 2 * 4 * 1024 * 1024
const EVERY_MS = 1_000
/** Collections of an interval in which much is allocated. */
const BUSY = 20
/** Allocated between two looks at the size: less than half of the smallest one, so that none is missed. */
const PORTION = 64 * 1024
const MAX_PORTIONS = 1_000

/** For as long as the process lives. To be called before much code is loaded, which would make it grow. */
export function keepYoungGenerationSmall(): void {
  enlarge()
  let collections = 0
  new PerformanceObserver((list) => {
    collections += list.getEntries().length
  }).observe({ entryTypes: ['gc'] })
  setInterval(() => {
    if (collections >= BUSY) enlarge()
    collections = 0
  }, EVERY_MS).unref()
}

/** Takes a few milliseconds if it is too small: V8 enlarges it in a collection that finds more alive than half of it. */
function enlarge(): void {
  const alive: unknown[] = []
  setFlagsFromString('--semi-space-growth-factor=2')
  for (let portion = 0; portion < MAX_PORTIONS && sizeOfYoungGeneration() < WANTED; portion++) {
    alive.push(Array.from({ length: PORTION / 1024 }, () => new Array(128).fill(0)))
  }
  setFlagsFromString('--semi-space-growth-factor=1')
}

function sizeOfYoungGeneration(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? WANTED
}
