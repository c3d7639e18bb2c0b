/**
 * What the service does when its time comes: send a message, retry a webhook, go on with an upload.
 *
 * Invariant: a task runs once, not before its moment in the service's time, in the order of the moments (tasks of one
 * moment in the order in which they were set); after `close` none runs.
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

  /** Runs `run` when the service's time is `at` (microseconds) or later; returns what takes it back. */
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

  /** As `at`, after so many milliseconds of the service's time. */
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
      // A timer takes at most 2^31 milliseconds; what is farther is looked at again. Zero lets `at` return first.
      await this.#real.sleep(Math.min(Math.max(0, this.#clock.real(wait)), 1e9), this.#waiting.signal)
      const now = this.#clock.elapsed()
      while (!this.#closed && this.#tasks.length > 0 && this.#tasks[0]!.at <= now) this.#tasks.shift()!.run()
    }
    this.#waiting = null
  }

  /** Where a task of `at` belongs: after those of the same moment. */
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
