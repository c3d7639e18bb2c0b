/**
 * Tells the drains of other processes that there is something in the inbox.
 *
 * Invariant: after the last commit one notice follows, at most `PAUSE_MS` later; no commit waits for one. Postgres
 * commits transactions that notify one after the other, under one lock of the whole database: in the statement that
 * stores, a notice would undo the group commit. So it has a connection of its own, which need not wait for the disk,
 * and says one notice for all commits of a moment. One that fails is made up for by the drains, which look by
 * themselves now and then.
 */
import { sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { closeInTime, inTime } from '../http/in-time.ts'

export const CHANNEL = 'intake_inbox'

/** How far one notice is from the next. */
const PAUSE_MS = 20
/** After one that failed. */
const LONG_PAUSE_MS = 1_000

export interface Notices {
  /** Something was committed. */
  send(): void
  close(): Promise<void>
}

export function openNotices(options: { url: string; clock: Clock; statementMs: number }): Notices {
  const { url, clock, statementMs } = options
  const closing = new AbortController()
  let session: Session | null = null
  let wanted = false
  let saying: Promise<void> | null = null

  const say = async () => {
    try {
      session ??= await openSession({
        url,
        purpose: 'ingest notices',
        connectTimeoutMs: statementMs,
        planner: ['synchronous_commit=off', `statement_timeout=${statementMs}`],
      })
      await inTime(clock, statementMs, sql`select pg_notify(${CHANNEL}, '')`.execute(session.db))
      return PAUSE_MS
    } catch {
      const broken = session
      session = null
      if (broken !== null) await closeInTime(clock, statementMs, broken)
      return LONG_PAUSE_MS
    }
  }
  const sayAll = async () => {
    while (wanted) {
      wanted = false
      const pause = await say()
      await clock.sleep(pause, closing.signal).catch(() => {})
    }
    saying = null
  }
  return {
    send() {
      wanted = true
      saying ??= sayAll()
    },
    async close() {
      closing.abort()
      await saying
      if (session !== null) await closeInTime(clock, statementMs, session)
    },
  }
}
