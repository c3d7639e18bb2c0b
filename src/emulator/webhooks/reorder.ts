/**
 * The fault `webhook-reorder`: delays an event until the next one was sent.
 *
 * Invariant: at most one event of a configuration is delayed at a time, and none longer than `LONGEST`.
 */
import type { Clock } from '../clock.ts'

/** Milliseconds of real time. */
const LONGEST = 1000

export class Reorder {
  readonly #clock: Clock
  readonly #closing: AbortSignal
  #delayed: { readonly number: number; readonly go: () => void } | null = null

  constructor(clock: Clock, closing: AbortSignal) {
    this.#clock = clock
    this.#closing = closing
  }

  /** Resolves when a later event was sent; at once if another one is delayed already. */
  async wait(number: number): Promise<void> {
    if (this.#delayed !== null) return
    const limit = new AbortController()
    this.#delayed = { number, go: () => limit.abort() }
    this.#closing.addEventListener('abort', this.#delayed.go, { once: true })
    await this.#clock.sleep(LONGEST, limit.signal)
    this.#closing.removeEventListener('abort', this.#delayed.go)
    this.#delayed = null
  }

  /** Ends the delay of an event with a number below `number`. */
  release(number: number): void {
    if (this.#delayed !== null && number > this.#delayed.number) this.#delayed.go()
  }
}
