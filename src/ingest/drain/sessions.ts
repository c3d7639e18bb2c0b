/**
 * Connections of a drain.
 *
 * Invariant: a connection that failed, or did not answer in time, is never used again; none outlives `close`, even when
 * the server hangs.
 */
import { once } from 'node:events'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { TIMED_OUT } from '../../warehouse/bounded-queries.ts'
import { destroySocket, openSession, PLANNER, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { withTimeout } from '../http/in-time.ts'

export interface DrainSessions {
  /** Returns a free connection, or a new one. */
  take(): Promise<Session>
  /** After work that succeeded. */
  release(session: Session): void
  /** After work that failed. */
  discard(session: Session): Promise<void>
  /** Rejects, and destroys the connection, when `work` takes longer than any live server needs. */
  bounded<Result>(session: Session, work: Promise<Result>): Promise<Result>
  /** Closes the free connections, and destroys the others. */
  close(): Promise<void>
}

/** A batch takes milliseconds. */
const STUCK_MS = 60_000
/** A process that is stopped, or whose host vanished, in the middle of a batch loses its events to others after this time. */
const IDLE_MS = 14_000

export function openSessions(url: string, clock: Clock, idleMs = IDLE_MS): DrainSessions {
  const free: Session[] = []
  /** All open connections, free or taken. */
  const open = new Set<Session>()

  return {
    async take() {
      const idle = free.pop()
      if (idle !== undefined) return idle
      const planner = [...PLANNER.drain, `idle_in_transaction_session_timeout=${idleMs}`]
      const session = await openSession({ url, purpose: 'drain', planner })
      open.add(session)
      session.client.once('end', () => open.delete(session))
      return session
    },
    release(session) {
      free.push(session)
    },
    discard: (session) => session.close(),
    async bounded(session, work) {
      try {
        return await withTimeout(clock, STUCK_MS, work)
      } catch (error) {
        if (warehouseError(error).code === TIMED_OUT) destroySocket(session.client)
        throw error
      }
    },
    async close() {
      await Promise.all(free.splice(0).map((session) => session.close()))
      for (const session of open) destroySocket(session.client)
    },
  }
}

/**
 * LISTEN in a session of its own, so that an event is drained the moment another process has stored it.
 *
 * Invariant: a session that breaks is renewed until `close`; events that were announced meanwhile are found by polling.
 */
export interface ListenerOptions {
  readonly url: string
  readonly channel: string
  readonly clock: Clock
  readonly logger: Logger
  readonly onNotice: () => void
}

export interface Listener {
  close(): Promise<void>
}

const RENEW_MS = 1_000

export function openListener({ url, channel, clock, logger, onNotice }: ListenerOptions): Listener {
  const closed = new AbortController()
  let session: Session | null = null

  async function listen(): Promise<void> {
    const opened = await openSession({ url, purpose: `listen ${channel}` })
    if (closed.signal.aborted) return await opened.close()
    session = opened
    const ended = once(opened.client, 'end')
    opened.client.on('notification', onNotice)
    await sql`listen ${sql.id(channel)}`.execute(opened.db)
    onNotice()
    await ended
  }

  async function run(): Promise<void> {
    while (!closed.signal.aborted) {
      try {
        await listen()
      } catch (error) {
        // Closing interrupts what was being opened, which is no trouble.
        if (!closed.signal.aborted)
          logger.warn(
            { channel, code: warehouseError(error).code },
            'cannot listen to the warehouse; polling',
          )
        await session?.close()
      }
      session = null
      if (!closed.signal.aborted) await clock.sleep(RENEW_MS, closed.signal).catch(() => {})
    }
  }

  const running = run()
  return {
    async close() {
      closed.abort()
      await session?.close()
      await running
    },
  }
}
