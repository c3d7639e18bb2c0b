/**
 * Tasks that the service runs at a given time: sending a message, retrying a webhook, continuing an upload.
 *
 * Invariant: a task runs once, not before its time, in order of time and then of scheduling; after `close` none runs.
 * Times are the service's.
 */
import type { Clock, ServiceClock } from './clock.ts'

interface Task {
  readonly at: number
  readonly run: () => void
}

export class Timeline {
  readonly #clock: ServiceClock
  readonly #real: Clock
  /** Ascending by `at`. */
  readonly #tasks: Task[] = []
  #waiting: AbortController | null = null
  #closed = false

  constructor(clock: ServiceClock, real: Clock) {
    this.#clock = clock
    this.#real = real
    clock.onAdvance(() => this.#wake())
  }

  /** Runs `run` when the service's time is `at` (microseconds) or later; returns a function that cancels it. */
  at(at: number, run: () => void): () => void {
    if (!Number.isFinite(at)) throw new RangeError('a task needs a moment')
    const task = { at, run }
    const place = this.#placeOf(at)
    this.#tasks.splice(place, 0, task)
    if (place === 0) this.#wake()
    return () => {
      const found = this.#tasks.indexOf(task)
      if (found >= 0) this.#tasks.splice(found, 1)
    }
  }

  /** Runs `run` after `milliseconds` of the service's time; returns a function that cancels it. */
  after(milliseconds: number, run: () => void): () => void {
    return this.at(this.#clock.elapsed() + milliseconds * 1000, run)
  }

  close(): void {
    this.#closed = true
    this.#tasks.length = 0
    this.#waiting?.abort()
  }

  #wake(): void {
    if (this.#closed) return
    if (this.#waiting === null) void this.#work()
    else this.#waiting.abort()
  }

  async #work(): Promise<void> {
    while (!this.#closed && this.#tasks.length > 0) {
      const wait = (this.#tasks[0]!.at - this.#clock.elapsed()) / 1000
      this.#waiting = new AbortController()
      // A timer takes at most 2^31 milliseconds; a later task is checked again then. Zero lets `at` return first.
      await this.#real.sleep(Math.min(Math.max(0, this.#clock.real(wait)), 1e9), this.#waiting.signal)
      const now = this.#clock.elapsed()
      while (!this.#closed && this.#tasks.length > 0 && this.#tasks[0]!.at <= now) this.#tasks.shift()!.run()
    }
    this.#waiting = null
  }

  /** Insertion index for `at`, after tasks of the same time. */
  #placeOf(at: number): number {
    let low = 0
    let high = this.#tasks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#tasks[middle]!.at <= at) low = middle + 1
      else high = middle
    }
    return low
  }
}
