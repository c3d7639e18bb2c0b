/**
 * The door that every request of a team passes: holds callers back until the limit's model lets one more through.
 *
 * Invariant: callers pass in the order they came, repeated attempts before new ones; a pass is given back exactly
 * once, whatever happened; nobody who gave up (an aborted signal) is let through. Requests and bodies under way
 * together are never more than `concurrency`. One timer is set at most. A call is turned away only when the service
 * accepted no request of the team for `giveUpAfterMs` of its waiting, or asks for a longer pause than that.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { Limit } from './limit.ts'

/** What a caller is turned away with: nothing was accepted for too long, … */
export const GAVE_UP = new Error('the service accepted no request for too long')
/** … or `Retry-After` is longer than anybody waits. */
export const TOO_LONG = new Error('the service asks for a longer pause than a request waits')

/** Milliseconds without one accepted request after which a call gives up. */
export const DEFAULT_GIVE_UP_AFTER_MS = 15 * 60_000

/** Leave to send one request now. The first of its functions to be called gives it back; later calls do nothing. */
export interface Pass {
  /** An answer came that the service counted. */
  accepted(): void
  /**
   * As `accepted`, but the answer's body is still coming: it keeps a place among those in flight until the function
   * that is returned is called. The limit does not wait for it, since the service has counted the request.
   */
  streaming(): () => void
  /** 429; `retryAfter` in milliseconds, or null when the answer does not say. False when the call has to give up. */
  throttled(retryAfter: number | null): boolean
  /** No answer came. */
  lost(): void
}

/** One call, which may be made of several requests. */
export interface Call {
  /** When it first asked to be sent, in microseconds of our clock. */
  readonly since: number
  /** True for one that was sent before: it goes first. */
  readonly again: boolean
}

export interface Gate {
  /** Milliseconds; see `GateOptions`. */
  readonly giveUpAfterMs: number
  /** Resolves when one request may be sent. Rejects on abort, and with `GAVE_UP`. */
  enter(signals: readonly AbortSignal[], call: Call): Promise<Pass>
  /** Requests per second, or null while no limit has shown. */
  permittedRate(): number | null
}

interface Caller {
  readonly since: number
  readonly admit: (pass: Pass) => void
  readonly turnAway: (reason: Error) => void
}

/** Microseconds between two lines of the log that speak of throttling. */
const QUIET = 10_000_000

export interface GateOptions {
  readonly concurrency: number
  readonly clock: Clock
  readonly logger: Logger
  /** Milliseconds that a call waits without one accepted request of the team; 15 minutes when left out. */
  readonly giveUpAfterMs?: number | undefined
}

export function openGate(options: GateOptions): Gate {
  const { clock, logger, giveUpAfterMs = DEFAULT_GIVE_UP_AFTER_MS } = options
  const limit = new Limit(options.concurrency)
  const anew: Set<Caller> = new Set()
  const repeated: Set<Caller> = new Set()
  let wake: AbortController | null = null
  let saidAt = Number.NEGATIVE_INFINITY
  let unsaid = 0
  let bodies = 0
  /** When the service last answered anything but 429. */
  let acceptedAt = Number.NEGATIVE_INFINITY
  /** The end of a pause that was asked for and is longer than anybody waits. */
  let closedUntil = Number.NEGATIVE_INFINITY

  const hasGivenUp = ({ since }: { readonly since: number }) =>
    clock.now() - Math.max(since, acceptedAt) >= giveUpAfterMs * 1000

  function enter(signals: readonly AbortSignal[], { since, again }: Call): Promise<Pass> {
    return new Promise((resolve, reject) => {
      const aborted = signals.find((signal) => signal.aborted)
      if (aborted) return reject(aborted.reason)
      const line = again ? repeated : anew
      const unlisten = () => {
        for (const signal of signals) signal.removeEventListener('abort', onAbort)
      }
      const caller: Caller = {
        since,
        admit: (pass) => {
          unlisten()
          resolve(pass)
        },
        turnAway: (reason) => {
          unlisten()
          reject(reason)
        },
      }
      const onAbort = (event: Event) => {
        unlisten()
        line.delete(caller)
        // A timer that nobody waits for would keep the process alive.
        if (anew.size + repeated.size === 0) wake?.abort()
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
        if (now < closedUntil) turnAway(TOO_LONG, () => true)
        else sleep(wait)
        return
      }
      line.delete(caller)
      caller.admit(pass(now, caller.since))
    }
  }

  function turnAway(reason: Error, whom: (caller: Caller) => boolean): void {
    for (const line of [repeated, anew]) {
      for (const caller of [...line].filter(whom)) {
        line.delete(caller)
        caller.turnAway(reason)
      }
    }
  }

  /** Whoever waits longer than anybody does is looked at meanwhile; a pause that is over lets the first try in any case. */
  function sleep(micros: number): void {
    const mine = new AbortController()
    wake = mine
    const isLong = micros > giveUpAfterMs * 1000
    const milliseconds = isLong ? giveUpAfterMs : Math.max(1, Math.ceil(micros / 1000))
    clock.sleep(milliseconds, mine.signal).then(
      () => {
        if (wake !== mine) return
        if (isLong) turnAway(GAVE_UP, hasGivenUp)
        admit()
      },
      () => {},
    )
  }

  function pass(now: number, since: number): Pass {
    const ticket = limit.sent(now)
    let back = false
    const giveBack = (tell: () => void) => {
      if (back) return
      back = true
      tell()
      admit()
    }
    const accept = () => {
      acceptedAt = clock.now()
      limit.accepted(ticket, acceptedAt)
    }
    return {
      accepted: () => giveBack(accept),
      streaming: () => {
        let read = back
        giveBack(() => {
          bodies += 1
          accept()
        })
        return () => {
          if (read) return
          read = true
          bodies -= 1
          admit()
        }
      },
      throttled: (retryAfter) => {
        giveBack(() => {
          const now = clock.now()
          limit.rejected(ticket, now, retryAfter === null ? null : retryAfter * 1000)
          if (retryAfter !== null && retryAfter > giveUpAfterMs) closedUntil = now + retryAfter * 1000
          report(retryAfter)
          turnAway(GAVE_UP, hasGivenUp)
        })
        return !hasGivenUp({ since })
      },
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

  return { giveUpAfterMs, enter, permittedRate: () => limit.rate }
}
