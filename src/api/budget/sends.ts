/**
 * Times of the requests that the service counted or may have counted: the content of its sliding window. And the permits
 * of one process, out of the N of a team: its share. Each permit is one request in any window.
 *
 * Invariant: instants ascend; a ring that grows as needed keeps at most the newest `CAPACITY` of them. Any window
 * contains at most as many requests of a process as its share has permits, so shares that add up to N satisfy a limit of
 * N, however their requests interleave. A permit that changes hands carries the time from which it may be used: when the
 * last request that used it leaves the window.
 */

const CAPACITY = 1 << 17

export class Sends {
  #ring = new Float64Array(256)
  #first = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The n-th newest, from 1; undefined when there are fewer. */
  newest(n: number): number | undefined {
    return n < 1 || n > this.#size ? undefined : this.#at(this.#size - n)
  }

  add(instant: number): void {
    if (this.#size === CAPACITY) this.#forgetOldest()
    if (this.#size === this.#ring.length) this.#grow()
    const sentAt = this.#size > 0 ? Math.max(instant, this.#at(this.#size - 1)) : instant
    this.#ring[(this.#first + this.#size) % this.#ring.length] = sentAt
    this.#size += 1
  }

  /** Removes a send that the service did not count. */
  remove(instant: number): void {
    const index = this.#firstAfter(instant) - 1
    if (index < 0) return
    for (let position = index; position < this.#size - 1; position++) {
      this.#ring[(this.#first + position) % this.#ring.length] = this.#at(position + 1)
    }
    this.#size -= 1
  }

  /** Moves a send, and any later ones that it would overtake, to a later instant. */
  postpone(instant: number, to: number): void {
    for (let index = this.#firstAfter(instant) - 1; index >= 0 && index < this.#size; index++) {
      if (this.#at(index) >= to) return
      this.#ring[(this.#first + index) % this.#ring.length] = to
    }
  }

  /** The number of sends in (from, to]. */
  between(from: number, to: number): number {
    return Math.max(0, this.#firstAfter(to) - this.#firstAfter(from))
  }

  forgetUpTo(instant: number): void {
    while (this.#size > 0 && this.#at(0) <= instant) this.#forgetOldest()
  }

  #forgetOldest(): void {
    this.#first = (this.#first + 1) % this.#ring.length
    this.#size -= 1
  }

  #at(index: number): number {
    return this.#ring[(this.#first + index) % this.#ring.length]!
  }

  /** Index of the first instant after `instant`; the size when there is none. */
  #firstAfter(instant: number): number {
    let low = 0
    let high = this.#size
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#at(middle) <= instant) low = middle + 1
      else high = middle
    }
    return low
  }

  #grow(): void {
    const ring = new Float64Array(this.#ring.length * 2)
    for (let index = 0; index < this.#size; index++) ring[index] = this.#at(index)
    this.#ring = ring
    this.#first = 0
  }
}

/** Permits that may be used from a time on: [time, how many]. */
export type Permits = readonly (readonly [at: number, count: number])[]

/** A list of permits has at most this many entries; each is dated as its latest. */
const ENTRIES = 32

export class Share {
  #count = 0
  /** Permits that were received and may not be used yet, ascending. */
  #arriving: Permits = []
  /** All permits that were used before are given back. */
  #since: number

  /** A share without permits; requests before `since` were sent with others. */
  constructor(since: number) {
    this.#since = since
  }

  get count(): number {
    return this.#count
  }

  /** The earliest time of the next request; `span` is the window with its margin. */
  due(now: number, sends: Sends, span: number): number {
    const usable = this.#usable(now)
    const arrives = this.#arriving[0]?.[0] ?? Number.POSITIVE_INFINITY
    if (usable < 1) return arrives
    const oldest = sends.newest(usable)
    return oldest === undefined || oldest <= this.#since ? now : Math.min(oldest + span, arrives)
  }

  take(permits: Permits): void {
    for (const [, count] of permits) this.#count += count
    this.#arriving = merged([...this.#arriving, ...permits])
  }

  /** Gives back `count` permits, unused ones first. */
  give(count: number, now: number, sends: Sends, span: number): Permits {
    const wanted = Math.min(count, this.#count)
    const usable = this.#usable(now)
    const inWindow = Math.min(usable, sends.between(Math.max(now - span, this.#since), now + span))
    const unused = Math.min(wanted, usable - inWindow)
    const given: [number, number][] = unused > 0 ? [[now, unused]] : []
    let left = wanted - unused
    const kept: [number, number][] = []
    for (const [at, some] of this.#arriving.toReversed()) {
      const part = Math.min(some, left)
      left -= part
      if (part > 0) given.push([at, part])
      if (part < some) kept.unshift([at, some - part])
    }
    this.#arriving = kept
    for (let nth = inWindow; left > 0; nth--, left--) given.push([sends.newest(nth)! + span, 1])
    this.#count -= wanted
    if (this.#count === 0) this.#since = now
    return merged(given)
  }

  /** Becomes a share of `count`, which covers the requests of the last window. */
  reset(count: number): void {
    this.#count = count
    this.#arriving = []
    this.#since = Number.NEGATIVE_INFINITY
  }

  copy(): Share {
    const other = new Share(this.#since)
    other.#count = this.#count
    other.#arriving = this.#arriving
    return other
  }

  #usable(now: number): number {
    if ((this.#arriving[0]?.[0] ?? now + 1) <= now) this.#arriving = this.#arriving.filter(([at]) => at > now)
    return this.#arriving.reduce((rest, [, count]) => rest - count, this.#count)
  }
}

/** Ascending, and of at most `ENTRIES` entries. */
export function merged(permits: Permits): Permits {
  const sums = new Map<number, number>()
  for (const [at, count] of permits) if (count > 0) sums.set(at, (sums.get(at) ?? 0) + count)
  const sorted = [...sums].sort(([a], [b]) => a - b)
  const size = Math.ceil(sorted.length / ENTRIES)
  if (size <= 1) return sorted
  const portions: [number, number][] = []
  for (let from = 0; from < sorted.length; from += size) {
    const portion = sorted.slice(from, from + size)
    portions.push([portion.at(-1)![0], portion.reduce((sum, [, count]) => sum + count, 0)])
  }
  return portions
}
