/**
 * The log of requests, for tests and rehearsals.
 *
 * Invariant: counters count every request since the last reset; the log keeps only the newest `KEPT` of them.
 */
export interface RequestRecord {
  /** Microseconds since 1970, real time, when the request arrived. */
  readonly at: number
  readonly environment: string
  /** Team of the credentials; null if they were missing or wrong. */
  readonly team: string | null
  readonly method: string
  /** Path and query as received. */
  readonly url: string
  /** True when the request carried any credential header, right or wrong. */
  readonly withCredentials: boolean
  /** 0 until it is answered, and if a fault cut it off. */
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
