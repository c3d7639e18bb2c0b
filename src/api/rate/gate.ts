/**
 * The door that every request of a team passes: holds callers back until the limit's model lets one more through.
 *
 * Invariant: callers pass in the order they came, repeated attempts before new ones; a pass is given back exactly
 * once, whatever happened; nobody who gave up (an aborted signal) is let through. Requests and bodies under way
 * together are never more than `concurrency`. One timer is set at most. Nobody waits longer than `LONGEST_PAUSE` for a
 * service that asked for more: all are turned away then.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { LONGEST_PAUSE } from '../backoff.ts'
import { Limit } from './limit.ts'

/** What a caller is turned away with. */
export const TOO_LONG = new Error('the service asks for a longer pause than a request waits')

/** Leave to send one request now. The first of its functions to be called gives it back; later calls do nothing. */
export interface Pass {
  /** An answer came that the service counted. */
  accepted(): void
  /**
   * As `accepted`, but the answer's body is still coming: it keeps a place among those in flight until the function
   * that is returned is called. The limit does not wait for it, since the service has counted the request.
   */
  streaming(): () => void
  /** 429; `retryAfter` in milliseconds, or null when the answer does not say. */
  throttled(retryAfter: number | null): void
  /** No answer came. */
  lost(): void
}

export interface Gate {
  /**
   * Resolves when one request may be sent; `again` puts it before those that never were. Rejects on abort, and with
   * `TOO_LONG`.
   */
  enter(signals: readonly AbortSignal[], again: boolean): Promise<Pass>
  /** Requests per second, or null while no limit has shown. */
  permittedRate(): number | null
}

interface Caller {
  readonly admit: (pass: Pass) => void
  readonly turnAway: () => void
}

/** Microseconds between two lines of the log that speak of throttling. */
const QUIET = 10_000_000

export function openGate(options: { concurrency: number; clock: Clock; logger: Logger }): Gate {
  const { clock, logger } = options
  const limit = new Limit(options.concurrency)
  const anew: Set<Caller> = new Set()
  const repeated: Set<Caller> = new Set()
  let wake: AbortController | null = null
  let saidAt = Number.NEGATIVE_INFINITY
  let unsaid = 0
  let bodies = 0

  function enter(signals: readonly AbortSignal[], again: boolean): Promise<Pass> {
    return new Promise((resolve, reject) => {
      const aborted = signals.find((signal) => signal.aborted)
      if (aborted) return reject(aborted.reason)
      const line = again ? repeated : anew
      const unlisten = () => {
        for (const signal of signals) signal.removeEventListener('abort', onAbort)
      }
      const caller: Caller = {
        admit: (pass) => {
          unlisten()
          resolve(pass)
        },
        turnAway: () => {
          unlisten()
          reject(TOO_LONG)
        },
      }
      const onAbort = (event: Event) => {
        unlisten()
        line.delete(caller)
        reject((event.target as AbortSignal).reason)
      }
      for (const signal of signals) signal.addEventListener('abort', onAbort, { once: true })
      line.add(caller)
      admit()
    })
  }

  function admit(): void {
    wake?.abort()
    wake = null
    for (;;) {
      const line = repeated.size > 0 ? repeated : anew
      const [caller] = line
      if (caller === undefined) return
      if (bodies > 0 && limit.inFlight + bodies >= options.concurrency) return
      const now = clock.now()
      const wait = limit.wait(now)
      if (wait > 0) {
        if (wait === Number.POSITIVE_INFINITY) return
        if (wait > LONGEST_PAUSE * 1000) turnAllAway()
        else sleep(wait)
        return
      }
      line.delete(caller)
      caller.admit(pass(now))
    }
  }

  function turnAllAway(): void {
    for (const line of [repeated, anew]) {
      const callers = [...line]
      line.clear()
      for (const caller of callers) caller.turnAway()
    }
  }

  function sleep(micros: number): void {
    const mine = new AbortController()
    wake = mine
    clock.sleep(Math.max(1, Math.ceil(micros / 1000)), mine.signal).then(
      () => {
        if (wake === mine) admit()
      },
      () => {},
    )
  }

  function pass(now: number): Pass {
    const ticket = limit.sent(now)
    let back = false
    const giveBack = (tell: () => void) => {
      if (back) return
      back = true
      tell()
      admit()
    }
    return {
      accepted: () => giveBack(() => limit.accepted(ticket, clock.now())),
      streaming: () => {
        let read = back
        giveBack(() => {
          bodies += 1
          limit.accepted(ticket, clock.now())
        })
        return () => {
          if (read) return
          read = true
          bodies -= 1
          admit()
        }
      },
      throttled: (retryAfter) =>
        giveBack(() => {
          limit.rejected(ticket, clock.now(), retryAfter === null ? null : retryAfter * 1000)
          report(retryAfter)
        }),
      lost: () => giveBack(() => limit.lost(ticket)),
    }
  }

  function report(retryAfter: number | null): void {
    unsaid += 1
    const now = clock.now()
    if (now - saidAt < QUIET) return
    logger.info({ throttled: unsaid, retryAfterMs: retryAfter, permittedRate: limit.rate }, 'throttled')
    saidAt = now
    unsaid = 0
  }

  return { enter, permittedRate: () => limit.rate }
}
