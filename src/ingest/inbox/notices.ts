/**
 * Notifies the drains of other processes of new events in the inbox.
 *
 * Invariant: after the last commit one notice follows, at most `PAUSE_MS` later; no commit waits for one. Postgres
 * commits transactions that notify one after the other, under one lock of the whole database: in the statement that
 * stores, a notice would undo the group commit. So notices have a connection of their own, which need not wait for
 * the disk, and one notice covers all commits of a moment. A notice that fails is no loss: the drains also poll.
 */
import { sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { withTimeout } from '../http/in-time.ts'

export const CHANNEL = 'intake_inbox'

/** Between two notices. */
const PAUSE_MS = 20
/** After a notice that failed. */
const LONG_PAUSE_MS = 1_000

export interface Notices {
  /** Call after each commit. */
  send(): void
  close(): Promise<void>
}

export function openNotices(options: { url: string; clock: Clock; statementMs: number }): Notices {
  const { url, clock, statementMs } = options
  const closing = new AbortController()
  let session: Session | null = null
  let wanted = false
  let sending: Promise<void> | null = null

  const notify = async () => {
    try {
      session ??= await openSession({
        url,
        purpose: 'ingest notices',
        connectTimeoutMs: statementMs,
        planner: ['synchronous_commit=off', `statement_timeout=${statementMs}`],
      })
      await withTimeout(clock, statementMs, sql`select pg_notify(${CHANNEL}, '')`.execute(session.db))
      return PAUSE_MS
    } catch {
      const broken = session
      session = null
      if (broken !== null) await broken.close()
      return LONG_PAUSE_MS
    }
  }
  const notifyWhileWanted = async () => {
    while (wanted) {
      wanted = false
      const pause = await notify()
      await clock.sleep(pause, closing.signal).catch(() => {})
    }
    sending = null
  }
  return {
    send() {
      wanted = true
      sending ??= notifyWhileWanted()
    },
    async close() {
      closing.abort()
      await sending
      if (session !== null) await session.close()
    },
  }
}
