/**
 * The inbox: stores events in groups, and confirms an event only when it is committed (law 1).
 *
 * Invariant: `store` resolves when the event's bytes are committed in the warehouse, and never otherwise; it rejects
 * within `storeMs` whatever the warehouse does, and at once while the warehouse is known to be unreachable. Everything
 * that arrived while the last groups committed goes in one statement; two statements are in flight, so that one is
 * written while the other is prepared.
 *
 *   store ──► queue ──► free writer ──► one statement ──► commit ──► each event: stored | duplicate | removed
 *                └── too old, or the warehouse is away: rejected
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { IntakeError } from '../../core/errors.ts'
import { isRefusalOfData } from '../../load/merge/load.ts'
import { TIMED_OUT, timedOut } from '../../warehouse/bounded-queries.ts'
import { sqlstateOf, warehouseError } from '../../warehouse/sqlstate.ts'
import type { IngestLimits } from '../http/in-flight.ts'
import type { IngestWatch } from '../watch.ts'
import type { InboxEvent, StoreOutcome } from './event.ts'
import { openNotices } from './notices.ts'
import { openQueue, type WaitingEvent } from './queue.ts'
import { openWriter, type Writer } from './writer.ts'

export interface InboxOptions {
  readonly url: string
  readonly clock: Clock
  readonly logger: Logger
  readonly watch: Pick<IngestWatch, 'committed'>
  /** Called after each commit that stored something. */
  readonly onStored: () => void
  readonly limits: Pick<IngestLimits, 'storeMs' | 'statementMs'>
}

export interface Inbox {
  store(event: InboxEvent): Promise<StoreOutcome>
  /** Why nothing can be stored at this moment; null when it can. */
  trouble(): string | null
  /** Commits the waiting events, then closes the connections. */
  close(): Promise<void>
}

const WRITERS = 2
/** Of one statement. */
const MAX_EVENTS = 500
const MAX_BYTES = 4 * 1024 * 1024
/** Attempts to store an event that is not at fault itself. */
const MAX_ATTEMPTS = 10
/** How often deadlines are looked at. */
const LOOK_MS = 50
const NOT_STORED = 'events could not be stored; they are tried again, or answered 503'
/** How long a statement's failure counts as trouble. */
const TROUBLE_MICROSECONDS = 5_000_000

export async function openInbox(options: InboxOptions): Promise<Inbox> {
  const { url, clock, logger, watch, onStored, limits } = options
  const queue = openQueue()
  const notices = openNotices({ url, clock, statementMs: limits.statementMs })
  /** Why no writer can reach the warehouse. */
  let away: IntakeError | null = null
  let failed: { readonly reason: IntakeError; readonly at: number } | null = null
  let looking: Promise<void> | null = null
  let pumping = false
  /** Events in a statement. */
  let inFlight = 0
  const writers: Writer[] = []

  const onChange = (failure: IntakeError | null) => {
    if (failure === null) {
      if (away !== null) logger.info('the warehouse is back: events are stored again')
      away = null
      wake()
    } else if (failure.code === TIMED_OUT || !writers.some((writer) => writer.isConnected)) {
      if (away === null) logger.warn({ code: failure.code }, `events are answered 503: ${failure.message}`)
      away = failure
      queue.failQueued(failure)
      // An idle connection would seem good until it is used.
      for (const writer of writers) writer.renew()
    }
  }

  /**
   * Runs after the other callbacks of this turn, so that events that arrived together are stored together. While one
   * group is in flight the next waits until it is as large, or until that one is done: two equal groups cost less than
   * a large one and several small ones.
   */
  const wake = () => {
    if (pumping) return
    pumping = true
    setImmediate(() => {
      pumping = false
      for (const writer of writers) {
        if (writer.isFree && queue.length > 0 && queue.length >= inFlight)
          void commit(writer, queue.take(MAX_EVENTS, MAX_BYTES))
      }
    })
  }

  const commit = async (writer: Writer, group: readonly WaitingEvent[]): Promise<void> => {
    const begun = clock.now()
    for (const waiting of group) waiting.tries += 1
    inFlight += group.length
    try {
      const outcomes = await writer.store(group.map(({ event }) => event)).finally(() => {
        inFlight -= group.length
      })
      if (failed !== null && away === null) logger.info('events are stored again')
      failed = null
      if (away !== null) onChange(null)
      watch.committed(group.length, (clock.now() - begun) / 1_000_000)
      for (const waiting of group) queue.settle(waiting, outcomes.get(waiting.event)!)
      if (group.some(({ event }) => outcomes.get(event) === 'stored')) {
        notices.send()
        onStored()
      }
    } catch (error) {
      await recover(writer, group, error)
    }
    wake()
  }

  const recover = async (writer: Writer, group: readonly WaitingEvent[], error: unknown): Promise<void> => {
    const reason = warehouseError(error)
    const refused = isRefusalOfData(sqlstateOf(reason.cause))
    if (refused && group.length > 1) {
      const half = group.length >> 1
      for (const part of [group.slice(0, half), group.slice(half)]) {
        if (writer.isFree) await commit(writer, part)
        else queue.putBack(part)
      }
      return
    }
    if (!refused) {
      if (failed === null && away === null)
        logger.warn({ code: reason.code }, `${NOT_STORED}: ${reason.message}`)
      failed = { reason, at: clock.now() }
    }
    if (reason.verdict !== 'retry' || reason.code === TIMED_OUT || away !== null) {
      for (const waiting of group) queue.fail(waiting, reason)
      return
    }
    for (const waiting of group) if (waiting.tries >= MAX_ATTEMPTS) queue.fail(waiting, reason)
    queue.putBack(group)
  }

  /** Runs while an event waits or is in flight. */
  const look = async () => {
    while (queue.size > 0 || inFlight > 0) {
      await clock.sleep(LOOK_MS)
      const now = clock.now()
      queue.expire(now, timedOut())
      for (const writer of writers) writer.expire(now)
    }
    looking = null
  }

  for (const writer of await Promise.all(
    Array.from({ length: WRITERS }, () =>
      openWriter({ url, clock, statementMs: limits.statementMs, onChange }),
    ),
  )) {
    writers.push(writer)
  }
  if (writers.some((writer) => writer.isConnected)) away = null

  return {
    store(event) {
      if (away !== null) return Promise.reject(away)
      const outcome = queue.add(event, clock.now() + limits.storeMs * 1000)
      looking ??= look()
      wake()
      return outcome
    },
    trouble() {
      if (away !== null) return away.message
      return failed !== null && clock.now() - failed.at < TROUBLE_MICROSECONDS ? failed.reason.message : null
    },
    async close() {
      await looking
      await Promise.all(writers.map((writer) => writer.close()))
      await notices.close()
    },
  }
}
