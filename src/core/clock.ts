/**
 * Time as an argument. Instants of our own clock are whole microseconds since 1970 as a JavaScript number, which is
 * exact until the year 2255.
 */
export interface Clock {
  /** Microseconds since 1970; never goes back within one process. */
  now(): number
  /** Resolves after `milliseconds`, or rejects with the signal's reason when it aborts first. */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>
}

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
