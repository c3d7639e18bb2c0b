/**
 * The events that wait to be stored, queued or in a statement.
 *
 * Invariant: each settles exactly once, at the latest by `expire` when its time is over; the same bytes, sent again
 * while they wait, share the one place and are a duplicate when it is stored.
 */
import type { IntakeError } from '../../core/errors.ts'
import { type InboxEvent, keyOf, type StoreOutcome } from './event.ts'

export interface WaitingEvent {
  readonly event: InboxEvent
  readonly key: string
  /** In the clock's microseconds. */
  readonly deadline: number
  readonly outcome: Promise<StoreOutcome>
  /** Statements it was in. */
  tries: number
  readonly resolve: (outcome: StoreOutcome) => void
  readonly reject: (reason: IntakeError) => void
}

export interface InboxQueue {
  /** Waiting events, including those in a statement. */
  readonly size: number
  /** Not in a statement. */
  readonly length: number
  add(event: InboxEvent, deadline: number): Promise<StoreOutcome>
  /** The oldest that are queued, up to so many events and bytes, but one at least. */
  take(events: number, bytes: number): readonly WaitingEvent[]
  putBack(waiting: readonly WaitingEvent[]): void
  settle(waiting: WaitingEvent, outcome: StoreOutcome): void
  fail(waiting: WaitingEvent, reason: IntakeError): void
  /** Fails those whose deadline is not after `now`. */
  expire(now: number, reason: IntakeError): void
  /** Fails all that are queued. */
  failQueued(reason: IntakeError): void
}

export function openQueue(): InboxQueue {
  /** By key, in the order of their deadlines. */
  const all = new Map<string, WaitingEvent>()
  let queued: WaitingEvent[] = []

  const isWaiting = (waiting: WaitingEvent) => all.get(waiting.key) === waiting
  const leave = (waiting: WaitingEvent) => {
    if (isWaiting(waiting)) all.delete(waiting.key)
  }
  const fail = (waiting: WaitingEvent, reason: IntakeError) => {
    leave(waiting)
    waiting.reject(reason)
  }

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
      if (same !== undefined)
        return same.outcome.then((outcome) => (outcome === 'stored' ? 'duplicate' : outcome))
      let resolve!: WaitingEvent['resolve']
      let reject!: WaitingEvent['reject']
      const outcome = new Promise<StoreOutcome>((yes, no) => {
        resolve = yes
        reject = no
      })
      const waiting = { event, key, deadline, outcome, tries: 0, resolve, reject }
      all.set(key, waiting)
      queued.push(waiting)
      return outcome
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
    settle(waiting, outcome) {
      leave(waiting)
      waiting.resolve(outcome)
    },
    fail,
    expire(now, reason) {
      let some = false
      for (const waiting of all.values()) {
        if (waiting.deadline > now) break
        fail(waiting, reason)
        some = true
      }
      if (some) queued = queued.filter(isWaiting)
    },
    failQueued(reason) {
      for (const waiting of queued.splice(0)) fail(waiting, reason)
    },
  }
}
