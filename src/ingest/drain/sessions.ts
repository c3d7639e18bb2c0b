/**
 * Connections of a drain.
 *
 * Invariant: a connection that failed, or did not answer in time, is never used again; none outlives `close`, even when
 * the server hangs.
 */
import type { Clock } from '../../core/clock.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { PLANNER } from '../../warehouse/planner.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { closeInTime, cut, inTime, TOO_LATE } from '../http/in-time.ts'

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
const CLOSE_MS = 2_000

export function openSessions(url: string, clock: Clock): DrainSessions {
  const free: Session[] = []
  /** All open connections, free or taken. */
  const open = new Set<Session>()

  return {
    async take() {
      const idle = free.pop()
      if (idle !== undefined) return idle
      const session = await openSession({ url, purpose: 'drain', planner: PLANNER.drain })
      open.add(session)
      session.client.once('end', () => open.delete(session))
      return session
    },
    release(session) {
      free.push(session)
    },
    discard: (session) => closeInTime(clock, CLOSE_MS, session),
    async bounded(session, work) {
      try {
        return await inTime(clock, STUCK_MS, work)
      } catch (error) {
        if (warehouseError(error).code === TOO_LATE) cut(session)
        throw error
      }
    },
    async close() {
      await Promise.all(free.splice(0).map((session) => closeInTime(clock, CLOSE_MS, session)))
      for (const session of open) cut(session)
    },
  }
}
