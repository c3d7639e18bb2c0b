/**
 * Advisory locks of a session. Invariant: a lock lasts as long as its session, so a process that is killed holds
 * nothing up.
 */
import { sql } from 'kysely'
import type { Session } from './connect.ts'

/** First half of the keys of our locks; the second is a hash of what is locked. */
const CLASSES = { stream: 7_204_311, run: 7_204_312 } as const

/** Takes the lock of `name` if nobody holds it. */
export async function tryLock(session: Session, kind: keyof typeof CLASSES, name: string): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`
    select pg_try_advisory_lock(${CLASSES[kind]}::int, hashtext(${name})) as locked`.execute(session.db)
  return rows[0]?.locked === true
}

export async function unlock(session: Session, kind: keyof typeof CLASSES, name: string): Promise<void> {
  await sql`select pg_advisory_unlock(${CLASSES[kind]}::int, hashtext(${name}))`.execute(session.db)
}
