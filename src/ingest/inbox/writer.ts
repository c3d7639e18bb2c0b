/**
 * One connection to the warehouse that stores batches, one at a time, and is renewed for as long as it takes.
 *
 * Invariant: whatever the warehouse does, also when it hangs, a batch ends at the first `expire` after the limit
 * of a statement; a connection that failed, or did not answer in time, is never used again.
 */
import type { Clock } from '../../core/clock.ts'
import type { IntakeError } from '../../core/errors.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { PLANNER } from '../../warehouse/planner.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { closeInTime, TOO_LATE, tooLate } from '../http/in-time.ts'
import type { InboxEvent } from './event.ts'
import { type Fate, fatesOf, type StoredRow, storeStatement } from './statement.ts'

export interface Writer {
  readonly isConnected: boolean
  /** Connected, and without a batch. */
  readonly isFree: boolean
  /** Returns the outcome of each event. After a rejection with an `IntakeError`, some may be stored all the same. */
  store(events: readonly InboxEvent[]): Promise<ReadonlyMap<InboxEvent, Fate>>
  /** Reconnects, unless a batch is in flight: its answer shows whether the connection works. */
  renew(): void
  /** Gives up a batch whose time is over at `now`, in the clock's microseconds. To be called often while it is busy. */
  expire(now: number): void
  close(): Promise<void>
}

export interface WriterOptions {
  readonly url: string
  readonly clock: Clock
  readonly statementMs: number
  /** Called when it is connected, and with the failure when it could not be or did not answer in time. */
  readonly onChange: (failure: IntakeError | null) => void
}

/** Codes of failures after which the connection is of no more use. */
const ENDED = new Set([TOO_LATE, 'warehouse_unreachable', 'shutdown', 'starting'])
/**
 * How much earlier the warehouse itself ends a statement, and a wait for a lock earlier still: it costs no connection
 * then, and the reason is known.
 */
const HEAD_START_MS = 200
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1_000

/** Resolves after its first attempt to connect, whether that succeeded or not. */
export async function openWriter({ url, clock, statementMs, onChange }: WriterOptions): Promise<Writer> {
  const closing = new AbortController()
  let session: Session | null = null
  let busy = false
  /** Of the batch in flight. */
  let deadline = 0
  let giveUp = () => {}

  const connect = async (): Promise<boolean> => {
    try {
      const planner = [
        ...PLANNER.inbox,
        // Whatever the database asks for: 200 says that the event is on the disk.
        'synchronous_commit=on',
        `statement_timeout=${statementMs - HEAD_START_MS}`,
      ]
      const lockTimeoutMs = statementMs - 2 * HEAD_START_MS
      const opened = await openSession({
        ...{ url, purpose: 'ingest', planner },
        ...{ connectTimeoutMs: statementMs, lockTimeoutMs },
      })
      if (closing.signal.aborted) {
        await closeInTime(clock, statementMs, opened)
        return true
      }
      session = opened
      opened.client.once('end', () => lose(opened))
      onChange(null)
      return true
    } catch (error) {
      onChange(warehouseError(error))
      return false
    }
  }
  const renew = async () => {
    for (let pause = FIRST_PAUSE_MS; !closing.signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      if (await connect()) return
      await clock.sleep(pause, closing.signal).catch(() => {})
    }
  }
  let renewing = Promise.resolve()
  const lose = (lost: Session) => {
    if (session !== lost) return
    session = null
    void closeInTime(clock, statementMs, lost)
    if (!closing.signal.aborted) renewing = renew()
  }

  if (!(await connect())) renewing = renew()
  return {
    get isConnected() {
      return session !== null
    },
    get isFree() {
      return session !== null && !busy
    },
    async store(events) {
      const used = session!
      busy = true
      try {
        const row = await new Promise<StoredRow>((resolve, reject) => {
          deadline = clock.now() + statementMs * 1000
          giveUp = () => reject(tooLate())
          used.client.query<StoredRow>(storeStatement(events)).then(({ rows }) => resolve(rows[0]!), reject)
        })
        return fatesOf(events, row)
      } catch (error) {
        const failure = warehouseError(error)
        if (ENDED.has(failure.code)) lose(used)
        if (failure.code === TOO_LATE) onChange(failure)
        throw failure
      } finally {
        busy = false
      }
    },
    renew() {
      if (session !== null && !busy) lose(session)
    },
    expire(now) {
      if (busy && now >= deadline) giveUp()
    },
    async close() {
      closing.abort()
      const last = session
      session = null
      if (last !== null) await closeInTime(clock, statementMs, last)
      await renewing
    },
  }
}
