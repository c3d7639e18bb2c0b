/**
 * Advisory locks of a session. Invariant: a lock lasts as long as its session, so a killed process blocks nothing.
 */
import { type Expression, type RawBuilder, sql } from 'kysely'
import type { Session } from './connect.ts'

/** First half of the keys of our locks; the second is a hash of what is locked. */
const CLASSES = { stream: 7_204_311, run: 7_204_312, alerts: 7_204_314, team: 7_204_317 } as const

/** Takes the lock of `name` if nobody holds it. */
export async function tryLock(
  session: Pick<Session, 'db'>,
  kind: keyof typeof CLASSES,
  name: string,
): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`
    select pg_try_advisory_lock(${CLASSES[kind]}::int, hashtext(${name})) as locked`.execute(session.db)
  return rows[0]?.locked === true
}

export async function unlock(
  session: Pick<Session, 'db'>,
  kind: keyof typeof CLASSES,
  name: string,
): Promise<void> {
  await sql`select pg_advisory_unlock(${CLASSES[kind]}::int, hashtext(${name}))`.execute(session.db)
}

/** Whether a session of this database holds the lock of `name`; takes no lock itself. */
export function isLocked(kind: keyof typeof CLASSES, name: Expression<string>): RawBuilder<boolean> {
  return sql`exists (
    select from pg_locks lock
    where lock.locktype = 'advisory' and lock.granted and lock.objsubid = 2
      and lock.database = (select oid from pg_database where datname = current_database())
      and lock.classid::bigint = ${CLASSES[kind]}::bigint
      and lock.objid::bigint = hashtext(${name})::bigint & 4294967295
  )`
}
