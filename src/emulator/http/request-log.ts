/**
 * What was asked of the emulator, for tests and for the person who rehearses.
 *
 * Invariant: counters count every request since the last reset; the log keeps only the newest `KEPT` of them.
 */
export interface RequestRecord {
  /** Microseconds since 1970, real time, when the request came in. */
  readonly at: number
  readonly environment: string
  /** Name of the team whose credentials came with it; null when they were missing or wrong. */
  readonly team: string | null
  readonly method: string
  /** Path and query as they came. */
  readonly url: string
  /** True when the request carried any credential header, right or wrong. */
  readonly withCredentials: boolean
  /** 0 while it is being answered, and for one that was cut off by a fault. */
  status: number
}

export interface Counters {
  readonly requests: number
  readonly throttled: number
}

const KEPT = 10_000

export class RequestLog {
  #records: RequestRecord[] = []
  readonly #counters = new Map<string, { requests: number; throttled: number }>()

  open(record: RequestRecord): RequestRecord {
    this.#records.push(record)
    if (this.#records.length >= KEPT * 2) this.#records = this.#records.slice(-KEPT)
    if (record.team !== null) this.#of(record.team).requests += 1
    return record
  }

  throttled(team: string): void {
    this.#of(team).throttled += 1
  }

  records(): readonly RequestRecord[] {
    return this.#records.slice(-KEPT)
  }

  counters(team: string): Counters {
    return { ...this.#of(team) }
  }

  reset(): void {
    this.#records = []
    this.#counters.clear()
  }

  #of(team: string): { requests: number; throttled: number } {
    let counters = this.#counters.get(team)
    if (counters === undefined) {
      counters = { requests: 0, throttled: 0 }
      this.#counters.set(team, counters)
    }
    return counters
  }
}
