/**
 * The request limiter of one team: every request needs a permit, and the model in limit.ts decides when to grant it.
 *
 * Invariant: permits are granted in the order of the calls, retries before new calls. Each permit is released exactly
 * once. An aborted call gets no permit. Requests in flight and bodies being read never exceed `concurrency` together.
 * At most one timer is set. A call fails only if the service accepted no request of the team while the call waited for
 * `giveUpAfterMs`, or requests a longer pause than that.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { Limit } from './limit.ts'
import type { RateLimit } from './limit-model.ts'
import { type BudgetStore, openSharing } from './sharing.ts'

/** A call is rejected with `GAVE_UP` after `giveUpAfterMs` without an accepted request, … */
export const GAVE_UP = new Error('the service accepted no request for too long')
/** … and with `TOO_LONG` if `Retry-After` exceeds that time. */
export const TOO_LONG = new Error('the service requests a longer pause than a request waits')

/** Milliseconds without one accepted request after which a call gives up. */
export const DEFAULT_GIVE_UP_AFTER_MS = 15 * 60_000

/** Permission to send one request now. The first call of any of its functions releases it; later calls do nothing. */
export interface Permit {
  /** The service answered, and so has counted the request. */
  accepted(): void
  /**
   * As `accepted`, but the body is still being read: it counts towards `concurrency` until the returned function is
   * called. The rate does not depend on it, since the service has counted the request.
   */
  streaming(): () => void
  /** 429; `retryAfter` in milliseconds, or null if the answer has none. Returns false if the call must give up. */
  throttled(retryAfter: number | null): boolean
  /** There was no answer. Returns false if no request of the team was answered for so long that it must give up. */
  lost(): boolean
}

/** One call, which may send several requests. */
export interface Call {
  /** Time of the first `acquire`, in microseconds of our clock. */
  readonly since: number
  /** True for a retry, which precedes new calls. */
  readonly again: boolean
  /** True for a request that precedes those of lists, such as a fetch by id. */
  readonly urgent?: boolean
}

export interface Limiter {
  /** Milliseconds; see `LimiterOptions`. */
  readonly giveUpAfterMs: number
  /** Resolves when one request may be sent. Rejects on abort, and with `GAVE_UP` or `TOO_LONG`. */
  acquire(signals: readonly AbortSignal[], call: Call): Promise<Permit>
  /** Requests per second, as configured or learned, or null while no limit is known. */
  permittedRate(): number | null
  /** Gives back the share of a budget that other processes use too. Idempotent. */
  close(): Promise<void>
}

interface Caller {
  readonly since: number
  readonly admit: (permit: Permit) => void
  readonly turnAway: (reason: Error) => void
}

/** Least microseconds between two log lines about throttling. */
const QUIET = 10_000_000

export interface LimiterOptions {
  readonly concurrency: number
  readonly clock: Clock
  readonly logger: Logger
  readonly team?: string
  /** Milliseconds that a call waits without an accepted request of the team; 15 minutes by default. */
  readonly giveUpAfterMs?: number | undefined
  /** Permitted requests of the team; learned from answers if undefined. */
  readonly rateLimit?: RateLimit | undefined
  /** Where the processes of the team share its budget, which the limiter closes; by default there is no other process. */
  readonly store?: BudgetStore | undefined
}

export function openLimiter(options: LimiterOptions): Limiter {
  const { clock, logger, team, store, giveUpAfterMs = DEFAULT_GIVE_UP_AFTER_MS } = options
  const limit = new Limit(options.concurrency, options.rateLimit)
  /** The most urgent first: retries, fetches by id, lists. */
  const repeated: Set<Caller> = new Set()
  const urgent: Set<Caller> = new Set()
  const anew: Set<Caller> = new Set()
  const lines = [repeated, urgent, anew]
  const waiting = () => lines.reduce((sum, { size }) => sum + size, 0)
  const demand = () => ({ waiting: waiting(), urgent: urgent.size })
  const shared = { limit, clock, logger, team, demand, changed: () => admit() }
  const sharing = store === undefined ? null : openSharing({ ...shared, store })
  let wake: AbortController | null = null
  let loggedAt = Number.NEGATIVE_INFINITY
  let unlogged = 0
  let bodies = 0
  /** When the service last answered anything but 429. */
  let acceptedAt = Number.NEGATIVE_INFINITY
  /** When the first of the latest requests was sent that had no answer; null once one is answered. */
  let silentSince: number | null = null
  let lostAt = Number.NEGATIVE_INFINITY
  /** End of a requested pause that exceeds `giveUpAfterMs`. */
  let closedUntil = Number.NEGATIVE_INFINITY

  const hasGivenUp = ({ since }: { readonly since: number }) =>
    clock.now() - Math.max(since, acceptedAt) >= giveUpAfterMs * 1000

  function acquire(signals: readonly AbortSignal[], call: Call): Promise<Permit> {
    return new Promise((resolve, reject) => {
      const aborted = signals.find((signal) => signal.aborted)
      if (aborted) return reject(aborted.reason)
      const line = call.again ? repeated : call.urgent === true ? urgent : anew
      const unlisten = () => {
        for (const signal of signals) signal.removeEventListener('abort', onAbort)
      }
      const caller: Caller = {
        since: call.since,
        admit: (permit) => {
          unlisten()
          resolve(permit)
        },
        turnAway: (reason) => {
          unlisten()
          reject(reason)
        },
      }
      const onAbort = (event: Event) => {
        unlisten()
        line.delete(caller)
        // An unneeded timer would keep the process alive.
        if (waiting() === 0) wake?.abort()
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
      sharing?.noteChange()
      const line = lines.find(({ size }) => size > 0)
      const [caller] = line ?? []
      if (line === undefined || caller === undefined) return
      if (sharing?.mayGo() === false) return
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
      caller.admit(grant(now, caller.since))
    }
  }

  function turnAway(reason: Error, matches: (caller: Caller) => boolean): void {
    for (const line of lines) {
      for (const caller of [...line].filter(matches)) {
        line.delete(caller)
        caller.turnAway(reason)
      }
    }
  }

  /** Wakes up after `giveUpAfterMs` at the latest, to reject the calls that have waited that long. */
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

  function grant(now: number, since: number): Permit {
    const ticket = limit.sent(now)
    let released = false
    const release = (settle: () => void) => {
      if (released) return
      released = true
      settle()
      admit()
    }
    const accept = () => {
      acceptedAt = clock.now()
      silentSince = null
      limit.accepted(ticket, acceptedAt)
    }
    return {
      accepted: () => release(accept),
      streaming: () => {
        let read = released
        release(() => {
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
        release(() => {
          const now = clock.now()
          limit.rejected(ticket, now, retryAfter === null ? null : retryAfter * 1000)
          if (retryAfter !== null && retryAfter > giveUpAfterMs) closedUntil = now + retryAfter * 1000
          report(retryAfter)
          turnAway(GAVE_UP, hasGivenUp)
        })
        return !hasGivenUp({ since })
      },
      lost: () => {
        const at = clock.now()
        release(() => limit.lost())
        // Unanswered requests of another time, before a pause of the team, say nothing about this one.
        if (silentSince === null || now - lostAt >= giveUpAfterMs * 1000) silentSince = now
        lostAt = at
        return at - silentSince < giveUpAfterMs * 1000
      },
    }
  }

  function report(retryAfter: number | null): void {
    unlogged += 1
    const now = clock.now()
    if (now - loggedAt < QUIET) return
    const counts = { throttled: unlogged, retryAfterMs: retryAfter, permittedRate: limit.rate }
    logger.info({ team, ...counts }, 'throttled')
    loggedAt = now
    unlogged = 0
  }

  const close = async () => await sharing?.close()
  return { giveUpAfterMs, acquire, permittedRate: () => limit.rate, close }
}
