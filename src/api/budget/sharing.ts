/**
 * One process's part in a team's budget: joins when it has requests to send, exchanges permits about once a second, reports
 * a 429 at once, and leaves when it has nothing to send.
 *
 * Invariant: nothing is sent without a lease, except where the store does not answer: then this process goes on with what
 * it has. At most one exchange is under way and one timer set; none while there is nothing to send.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { type Division, LEASE } from './division.ts'
import { Part } from './exchange.ts'
import { type Demand, resumesAt } from './explain.ts'
import type { Limit } from './limit.ts'
import { SECOND } from './margin.ts'

/** Where the processes of a team keep their division. */
export interface BudgetStore {
  /** Unique among the processes that share the budget. */
  readonly name: string
  /**
   * Replaces the division as one step: `change` gets the stored one (null: none yet) and the store's time in microseconds, and
   * is called again where another process was faster. `notify` wakes the others.
   */
  update(change: (stored: unknown, now: number) => { division: Division; notify: boolean }): Promise<void>
  /** Calls `listener` when another process notifies. */
  listen(listener: () => void): void
  /** No `update` follows. */
  close(): Promise<void>
}

export interface Sharing {
  /** Whether a request may be sent as far as the lease is concerned; if not, `changed` is called once it may. */
  mayGo(): boolean
  /** Looks at the limit after a change, which the others may have to know. */
  noteChange(): void
  /** Gives back the share. Idempotent. */
  close(): Promise<void>
}

export interface SharingOptions {
  readonly limit: Limit
  readonly store: BudgetStore
  readonly clock: Clock
  readonly logger: Logger
  /** Named by the lines of the log. */
  readonly team?: string | undefined
  readonly demand: () => Demand
  /** Something may be sent that could not be before. */
  readonly changed: () => void
}

/** From one exchange to the next; the least; and while a share is too small, or others have to be waited for. */
const HEARTBEAT_MS = 1_000
const MIN_PAUSE_MS = 50
const SHORT_MS = 250
/** How long a request waits for a store that does not answer. */
const PATIENCE_MS = 2_000

export function openSharing(options: SharingOptions): Sharing {
  const { limit, store, clock, logger, team, demand, changed } = options
  const part = new Part({ name: store.name, limit, clock, demand })
  let leaseUntil = Number.NEGATIVE_INFINITY
  let exchangedAt = Number.NEGATIVE_INFINITY
  /** Rejections that were reported to the others. */
  let noted: Limit['episode'] = null
  /** True between joining and leaving; while the store is away; while another exchange is to follow; at the end. */
  let isJoined = false
  let isLost = false
  let isAsked = false
  let isClosed = false
  let running: Promise<void> | null = null
  let timer: AbortController | null = null

  store.listen(() => {
    if (isJoined) ask()
  })

  /** An exchange as soon as possible: at once, or after the present one. */
  function ask(): void {
    if (isClosed) return
    isAsked = true
    if (running !== null) return
    const early = exchangedAt / 1000 + MIN_PAUSE_MS - clock.now() / 1000
    if (early > 0) wakeIn(early)
    else start()
  }

  function start(): void {
    running = exchangeInTime().finally(() => {
      running = null
      if (isAsked) ask()
      else planNext()
      changed()
    })
  }

  function wakeIn(milliseconds: number): void {
    timer?.abort()
    const mine = new AbortController()
    timer = mine
    clock.sleep(Math.max(1, Math.ceil(milliseconds)), mine.signal).then(
      () => {
        if (timer === mine) ask()
      },
      () => {},
    )
  }

  function isActive(): boolean {
    const now = clock.now()
    const isSending = demand().waiting > 0 || limit.inFlight > 0
    return isSending || part.isOwner || limit.sentBetween(now - SECOND, now) > 0
  }

  function planNext(): void {
    if (isClosed || (!isJoined && !isActive())) return
    const pause = limit.isBlocked ? resumesAt(limit, part.isOwner) - clock.now() : 0
    if (pause > 0) wakeIn(Math.min(pause / 1000 + 1, HEARTBEAT_MS))
    else wakeIn(limit.isBlocked || (part.isShort && demand().waiting > 0) ? SHORT_MS : HEARTBEAT_MS)
  }

  async function exchangeInTime(): Promise<void> {
    isAsked = false
    const inTime = new AbortController()
    const late = clock.sleep(PATIENCE_MS, inTime.signal).then(
      () => goOn('no answer'),
      () => {},
    )
    try {
      await exchange(isJoined && !isActive())
      isLost = false
    } catch (error) {
      goOn(error instanceof Error ? error.name : typeof error)
    }
    exchangedAt = clock.now()
    inTime.abort()
    await late
  }

  async function exchange(isLeaving: boolean): Promise<void> {
    part.begin(isLeaving)
    await store.update((stored, storeNow) => part.change(stored, storeNow))
    part.done()
    isJoined = !isLeaving
    leaseUntil = isLeaving ? Number.NEGATIVE_INFINITY : part.readAt + LEASE - SECOND / 5
  }

  /** The store is away: this process goes on with its share, or alone if it never had one. */
  function goOn(why: string): void {
    leaseUntil = clock.now() + SECOND
    limit.isBlocked = false
    if (part.revision < 0) limit.share = null
    if (!isLost) logger.warn({ team, why }, 'the request budget cannot be shared now')
    isLost = true
    changed()
  }

  return {
    mayGo() {
      if (clock.now() < leaseUntil) return true
      ask()
      return false
    },
    noteChange() {
      if (!isJoined || isLost || isClosed) return
      const { episode } = limit
      const isNew = episode !== null && episode !== noted
      noted = episode
      if (isNew && !limit.isConfigured && !part.isOwner) limit.isBlocked = true
      const isLearned = part.isOwner && episode === null
      const isRaised = limit.mayRaise && part.count !== (limit.known?.count ?? null)
      if (isNew || isLearned || isRaised) ask()
    },
    async close() {
      if (isClosed) return
      isClosed = true
      isAsked = false
      timer?.abort()
      await running
      if (isJoined && !isLost) await exchange(true).catch(() => {})
      await store.close()
    },
  }
}
