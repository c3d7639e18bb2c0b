/**
 * The events that wait to be stored, queued or in a statement.
 *
 * Invariant: each settles exactly once, at the latest by `expire` when its time is over; the same bytes, sent again
 * while they wait, share the one place and are a duplicate when it is stored.
 */
import type { IntakeError } from '../core/errors.ts'
import type { InboxEvent } from './event.ts'
import { keyOf } from './inbox-statement.ts'

export type Outcome = 'stored' | 'duplicate'

export interface Waiting {
  readonly event: InboxEvent
  /** In the clock's microseconds. */
  readonly deadline: number
  readonly outcome: Promise<Outcome>
  /** Statements it was in. */
  tries: number
  settle(outcome: Outcome): void
  fail(reason: IntakeError): void
}

export interface InboxQueue {
  /** Waiting, those in a statement included. */
  readonly size: number
  /** Not in a statement. */
  readonly length: number
  add(event: InboxEvent, deadline: number): Promise<Outcome>
  /** The oldest that are queued, up to so many events and bytes, but one at least. */
  take(events: number, bytes: number): readonly Waiting[]
  putBack(waiting: readonly Waiting[]): void
  /** Fails those whose deadline is not after `now`. */
  expire(now: number, reason: IntakeError): void
  /** Fails all that are queued. */
  failQueued(reason: IntakeError): void
}

export function openQueue(): InboxQueue {
  /** By key, in the order of their deadlines. */
  const all = new Map<string, Waiting>()
  let queued: Waiting[] = []

  const place = (event: InboxEvent, key: string, deadline: number): Waiting => {
    const { promise, resolve, reject } = withResolvers<Outcome>()
    const leave = () => {
      if (all.get(key) === waiting) all.delete(key)
    }
    const waiting: Waiting = {
      event,
      deadline,
      outcome: promise,
      tries: 0,
      settle(outcome) {
        leave()
        resolve(outcome)
      },
      fail(reason) {
        leave()
        reject(reason)
      },
    }
    return waiting
  }
  const isWaiting = (waiting: Waiting) => all.get(keyOf(waiting.event)) === waiting

  return {
    get size() {
      return all.size
    },
    get length() {
      return queued.length
    },
    add(event, deadline) {
      const key = keyOf(event)
      const same = all.get(key)
      if (same !== undefined) return same.outcome.then(() => 'duplicate')
      const waiting = place(event, key, deadline)
      all.set(key, waiting)
      queued.push(waiting)
      return waiting.outcome
    },
    take(events, bytes) {
      let count = 0
      let total = 0
      for (const { event } of queued) {
        total += event.body.length
        if (count > 0 && (count === events || total > bytes)) break
        count += 1
      }
      return queued.splice(0, count)
    },
    putBack(waiting) {
      queued = [...waiting.filter(isWaiting), ...queued]
    },
    expire(now, reason) {
      let some = false
      for (const waiting of all.values()) {
        if (waiting.deadline > now) break
        waiting.fail(reason)
        some = true
      }
      if (some) queued = queued.filter(isWaiting)
    },
    failQueued(reason) {
      for (const waiting of queued.splice(0)) waiting.fail(reason)
    },
  }
}

function withResolvers<Value>() {
  let resolve!: (value: Value) => void
  let reject!: (reason: unknown) => void
  const promise = new Promise<Value>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
