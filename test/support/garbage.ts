/** Garbage collection: frees objects that only a weak reference reaches, and measures memory in use. */
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Bytes in use. Buffers are freed in the background after a collection; a second collection waits for that. */
export function bytesInUse(): number {
  collectGarbage()
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/**
 * Measures bytes in use repeatedly until the promise settles. Between measurements the work gets four times as long as a
 * measurement took, because on a busy machine a collection takes longer than any fixed pause.
 */
export async function bytesInUseDuring(work: Promise<unknown>): Promise<readonly number[]> {
  const looks: number[] = []
  let over = false
  const ended = work.then(
    () => {
      over = true
    },
    () => {
      over = true
    },
  )
  while (!over) {
    const begun = performance.now()
    looks.push(bytesInUse())
    await Promise.race([ended, sleep(Math.max(MIN_MS, 4 * (performance.now() - begun)))])
  }
  await work
  return looks
}

const MIN_MS = 100
const EVERY_MS = 200

/** Active until it is disposed of. */
export function collecting(): Disposable {
  const timer = setInterval(collectGarbage, EVERY_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
