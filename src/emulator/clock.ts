/**
 * The emulator's two clocks: real time, for rate limits and delays, and the service's time, which stamps records
 * and answers and can run faster, be advanced, or be skewed; and the tasks that run at a given time of the service.
 *
 * Invariant: stamps are whole microseconds since 1970; the service's time never goes back unless its skew is changed.
 */
export interface Clock {
  /** Microseconds since 1970. */
  now(): number
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>
}

export const wallClock: Clock = {
  now: () => Math.round((performance.timeOrigin + performance.now()) * 1000),
  sleep: (milliseconds, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(done, milliseconds)
      function done(): void {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      if (signal?.aborted === true) done()
      else signal?.addEventListener('abort', done, { once: true })
    }),
}

export class ServiceClock {
  readonly #real: Clock
  readonly #scale: number
  readonly #start: number
  #advanced = 0
  readonly #onAdvance = new Set<() => void>()
  /** Error of the service's clock, in microseconds. */
  skew = 0

  constructor(real: Clock, scale: number) {
    this.#real = real
    this.#scale = scale
    this.#start = real.now()
  }

  /** The time that stamps records, events and answers, skew included. */
  now(): number {
    return this.elapsed() + this.skew
  }

  /** The service's time without skew; schedules use it. */
  elapsed(): number {
    return Math.round(this.#start + (this.#real.now() - this.#start) * this.#scale) + this.#advanced
  }

  /** Advances the service's time by `microseconds`. */
  advance(microseconds: number): void {
    this.#advanced += microseconds
    for (const listener of this.#onAdvance) listener()
  }

  /** Calls `listener` after each `advance`. */
  onAdvance(listener: () => void): void {
    this.#onAdvance.add(listener)
  }

  /** Converts milliseconds of the service's time to real milliseconds. */
  real(milliseconds: number): number {
    return milliseconds / this.#scale
  }
}

const DAY = 86_400_000_000
const days = new Map<number, string>()

/** ISO 8601 in UTC with microseconds; without a fraction if it is zero, as the service writes them. */
export function stamp(microseconds: number): string {
  const day = Math.floor(microseconds / DAY)
  let date = days.get(day)
  if (date === undefined) {
    date = new Date(day * 86_400_000).toISOString().slice(0, 11)
    if (days.size >= 2000) days.clear()
    days.set(day, date)
  }
  const rest = microseconds - day * DAY
  const seconds = Math.floor(rest / 1_000_000)
  const minutes = Math.floor(seconds / 60)
  const time = `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}:${two(seconds % 60)}`
  const fraction = rest - seconds * 1_000_000
  return fraction === 0 ? `${date}${time}Z` : `${date}${time}.${String(fraction).padStart(6, '0')}Z`
}

function two(number: number): string {
  return number < 10 ? `0${number}` : String(number)
}

/** True for the years 1 to 2254, which a stamp represents exactly to the microsecond. */
export function isStampable(microseconds: number): boolean {
  return microseconds >= -62_135_596_800_000_000 && microseconds < 8_993_721_600_000_000
}

const ISO = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?$/i

/**
 * Microseconds since 1970 of an ISO 8601 time, in UTC unless it has a zone; undefined for other text and for times
 * out of range.
 */
export function readStamp(text: string): number | undefined {
  const match = ISO.exec(text)
  if (match === null) return undefined
  const [, date = '', hours = '', minutes = '', seconds = '00', fraction = '', zone = 'Z'] = match
  const offset = zone.toUpperCase() === 'Z' ? 'Z' : `${zone.slice(0, 3)}:${zone.slice(-2)}`
  const whole = Date.parse(`${date}T${hours}:${minutes}:${seconds}${offset}`)
  const day = Date.parse(`${date}T00:00:00Z`)
  if (Number.isNaN(whole) || !new Date(day).toISOString().startsWith(date)) return undefined
  const microseconds = whole * 1000 + Number(fraction.padEnd(6, '0').slice(0, 6))
  return isStampable(microseconds) ? microseconds : undefined
}

interface Task {
  readonly at: number
  readonly run: () => void
}

/**
 * Tasks that the service runs at a given time: sending a message, retrying a webhook, continuing an upload.
 *
 * Invariant: a task runs once, not before its time, in order of time and then of scheduling; after `close` none runs.
 * Times are the service's.
 */
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
