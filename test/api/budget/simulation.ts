/**
 * A service with a request limit and a client that obeys `Limit`, in simulated time: an hour takes milliseconds.
 *
 * Invariant: nothing here waits or reads a clock; the same seed gives the same run.
 */
import { Limit, type Ticket } from '../../../src/api/budget/limit.ts'
import type { RateLimit } from '../../../src/api/budget/limit-model.ts'

const SECOND = 1_000_000

export interface Limiter {
  /** Counts the request that arrives at `now`, or returns the microseconds to wait. */
  take(now: number): number | null
  /** Requests that it would have permitted in `seconds` to an ideal client. */
  permitted(seconds: number): number
}

/** At most `count` in any `seconds`; `changes` set other counts from an instant (in seconds) on. */
export function slidingWindow(
  count: number,
  seconds: number,
  changes: readonly [number, number][] = [],
): Limiter {
  const taken: number[] = []
  let first = 0
  const countAt = (now: number) => changes.findLast(([from]) => now >= from * SECOND)?.[1] ?? count
  return {
    take(now) {
      while (first < taken.length && taken[first]! <= now - seconds * SECOND) first += 1
      if (taken.length - first < countAt(now)) {
        taken.push(now)
        return null
      }
      return taken[first]! + seconds * SECOND - now
    },
    permitted(total) {
      let sum = 0
      for (let at = 0; at < total; at += seconds / 100)
        sum += (countAt(at * SECOND) * Math.min(seconds / 100, total - at)) / seconds
      return sum
    },
  }
}

export function tokenBucket(burst: number, perSecond: number): Limiter {
  let tokens = burst
  let last = 0
  return {
    take(now) {
      tokens = Math.min(burst, tokens + ((now - last) / SECOND) * perSecond)
      last = now
      if (tokens >= 1) {
        tokens -= 1
        return null
      }
      return ((1 - tokens) / perSecond) * SECOND
    },
    permitted: (total) => perSecond * total,
  }
}

/** Resets its count at each multiple of `seconds`. */
export function fixedWindow(count: number, seconds: number): Limiter {
  let window = -1
  let taken = 0
  return {
    take(now) {
      const current = Math.floor(now / (seconds * SECOND))
      if (current !== window) taken = 0
      window = current
      if (taken < count) {
        taken += 1
        return null
      }
      return (current + 1) * seconds * SECOND - now
    },
    permitted: (total) => (count * total) / seconds,
  }
}

/** `limiter`, with another client that uses `perSecond` of it. */
export function shared(
  limiter: Limiter,
  perSecond: number,
  from = 0,
  to = Number.POSITIVE_INFINITY,
): Limiter {
  let next = from * SECOND
  return {
    take(now) {
      for (; next <= now && next < to * SECOND; next += SECOND / perSecond) limiter.take(next)
      return limiter.take(now)
    },
    permitted: (total) => limiter.permitted(total) - perSecond * Math.max(0, Math.min(total, to) - from),
  }
}

export interface Circumstances {
  readonly limiter: Limiter
  readonly seconds: number
  readonly concurrency: number
  /** Round trip in milliseconds; each direction takes half of it, with a variation of `jitter`. */
  readonly latency: number
  readonly jitter: number
  readonly header: boolean
  /** Learned from answers if undefined. */
  readonly configured?: RateLimit
  readonly seed?: number
}

export interface Run {
  readonly accepted: number
  readonly rejected: number
  /** As a share of the permitted requests. */
  readonly used: number
  /** As a share of the sent requests. */
  readonly wasted: number
  readonly log: readonly { at: number; rejected: boolean }[]
}

type Event =
  | {
      readonly at: number
      readonly kind: 'arrive' | 'answer'
      readonly ticket: Ticket
      refused: number | null
    }
  | { readonly at: number; readonly kind: 'wake' }

export function simulate(given: Circumstances): Run {
  const { limiter, concurrency, latency, jitter, header } = given
  const random = generator(given.seed ?? 1)
  const limit = new Limit(concurrency, given.configured)
  const end = given.seconds * SECOND
  const queue = heap<Event>((a, b) => a.at - b.at)
  const log: { at: number; rejected: boolean }[] = []
  const way = () => latency * 500 * (1 + jitter * (2 * random() - 1))
  let wakeAt = Number.POSITIVE_INFINITY

  const send = (now: number) => {
    for (;;) {
      const wait = limit.wait(now)
      if (wait > 0) {
        const at = now + Math.max(1000, Math.ceil(wait / 1000) * 1000) // timers tick in milliseconds
        if (at < wakeAt || wakeAt <= now) {
          wakeAt = at
          if (at !== Number.POSITIVE_INFINITY) queue.push({ at, kind: 'wake' })
        }
        return
      }
      queue.push({ at: now + way(), kind: 'arrive', ticket: limit.sent(now), refused: null })
    }
  }

  let accepted = 0
  let rejected = 0
  send(0)
  for (let event = queue.pop(); event !== undefined && event.at < end; event = queue.pop()) {
    const now = event.at
    if (event.kind === 'wake') {
      if (now >= wakeAt) wakeAt = Number.POSITIVE_INFINITY
      send(now)
    } else if (event.kind === 'arrive') {
      const refused = limiter.take(now)
      log.push({ at: now, rejected: refused !== null })
      if (refused === null) accepted += 1
      else rejected += 1
      queue.push({ at: now + way(), kind: 'answer', ticket: event.ticket, refused })
    } else {
      if (event.refused === null) limit.accepted(event.ticket, now)
      else limit.rejected(event.ticket, now, header ? Math.ceil(event.refused / SECOND) * SECOND : null)
      send(now)
    }
  }
  const permitted = limiter.permitted(given.seconds)
  return { accepted, rejected, used: accepted / permitted, wasted: rejected / (accepted + rejected), log }
}

/** mulberry32 */
export function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

export function heap<T>(compare: (a: T, b: T) => number): { push(item: T): void; pop(): T | undefined } {
  const items: T[] = []
  return {
    push(item) {
      let at = items.push(item) - 1
      while (at > 0) {
        const parent = (at - 1) >> 1
        if (compare(items[parent]!, items[at]!) <= 0) break
        ;[items[parent], items[at]] = [items[at]!, items[parent]!]
        at = parent
      }
    },
    pop() {
      const top = items[0]
      const last = items.pop()
      if (items.length === 0 || last === undefined) return top
      items[0] = last
      for (let at = 0; ; ) {
        let least = at
        for (const child of [2 * at + 1, 2 * at + 2]) {
          if (child < items.length && compare(items[child]!, items[least]!) < 0) least = child
        }
        if (least === at) break
        ;[items[least], items[at]] = [items[at]!, items[least]!]
        at = least
      }
      return top
    },
  }
}
