/**
 * An event that is overtaken by the next one.
 *
 * Invariant: at most one event of a configuration is held back at a time, and none longer than `LONGEST`.
 */
import type { Clock } from '../clock.ts'

/** Milliseconds of real time. */
const LONGEST = 1000

export class HeldBack {
  readonly #clock: Clock
  readonly #closing: AbortSignal
  #held: { readonly number: number; readonly go: () => void } | null = null

  constructor(clock: Clock, closing: AbortSignal) {
    this.#clock = clock
    this.#closing = closing
  }

  /** Ends when a later event was sent; at once when another one is held back already. */
  async hold(number: number): Promise<void> {
    if (this.#held !== null) return
    const limit = new AbortController()
    this.#held = { number, go: () => limit.abort() }
    this.#closing.addEventListener('abort', this.#held.go, { once: true })
    await this.#clock.sleep(LONGEST, limit.signal)
    this.#closing.removeEventListener('abort', this.#held.go)
    this.#held = null
  }

  /** Lets go of an event that the `number`-th has overtaken. */
  release(number: number): void {
    if (this.#held !== null && number > this.#held.number) this.#held.go()
  }
}
