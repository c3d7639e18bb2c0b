/**
 * A signal that goes off after a time, or with another.
 *
 * Invariant: goes off whatever garbage is collected meanwhile, and once let go leaves no timer and no listener.
 *
 * Not AbortSignal.any: on Node 20 it keeps every short-lived signal alive as long as the run's own, and holds those
 * of AbortSignal.timeout so weakly that their time is forgotten at the next collection.
 */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal
  /** True when the time was up, and before any of the others went off. */
  isOver(): boolean
  /** From now on it only follows the others. */
  stop(): void
  /** From now on it follows nothing. Once more is no harm. */
  letGo(): void
}

/** The longest that a timer of Node's can be set to, some 24 days, is the caller's to heed. */
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
  const letGo = () => {
    stop()
    for (const unlisten of relays) unlisten()
  }
  return { signal: abort.signal, isOver: () => over, stop, letGo, [Symbol.dispose]: letGo }
}

function timedOut(): Error {
  return new DOMException('the time is up', 'TimeoutError')
}
