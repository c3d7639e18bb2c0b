/**
 * Advisory locks, whose keys follow from a secret of the installation (intake_ops.lock_key): no other login can take one.
 *
 * Invariant: a lock lasts as long as its session, or its transaction, so a killed process blocks nothing; a lock that
 * cannot be taken names the sessions that have it.
 */
import { type Expression, type Kysely, type RawBuilder, sql } from 'kysely'
import type { Session } from './connect.ts'
import { LOCK_TAKEN, SQLSTATE, sqlstateOf } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

/** First half of what a key is made from; the second is the name of what is locked. */
const KINDS = {
  migration: 7_204_310,
  stream: 7_204_311,
  run: 7_204_312,
  alerts: 7_204_314,
  /** Also in hold_erasures: loads share it, and who notes an erasure takes it alone. */
  loading: 7_204_315,
  /** Also in hold_inbox_of: who stores events shares it. */
  receiving: 7_204_316,
  team: 7_204_317,
  wideViews: 7_204_318,
  /** A worker holds it for as long as it lives. */
  worker: 7_204_319,
  /** Workers claim slices in turn, so that their counts of what a team has are right. */
  claims: 7_204_320,
  /** One session at a time sums up counts, and sees what the one before it summed up. */
  counts: 7_204_321,
} as const

export type LockKind = keyof typeof KINDS

function keyOf(kind: LockKind, name: Expression<string> | string): RawBuilder<string> {
  return sql`intake_ops.lock_key(${KINDS[kind]}::int, ${name})`
}

/** Takes the lock of `name` if nobody has it. */
export async function tryLock(session: Pick<Session, 'db'>, kind: LockKind, name: string): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`
    select pg_try_advisory_lock(${keyOf(kind, name)}) as locked`.execute(session.db)
  return rows[0]?.locked === true
}

export async function unlock(session: Pick<Session, 'db'>, kind: LockKind, name: string): Promise<void> {
  await sql`select pg_advisory_unlock(${keyOf(kind, name)})`.execute(session.db)
}

/** Waits for the lock of `name`, and has it alone until the transaction of `db` ends. */
export async function lockAlone(db: Kysely<Warehouse>, kind: LockKind, name: string): Promise<void> {
  await sql`select intake_ops.take_lock(${KINDS[kind]}::int, ${name}, false)`.execute(db)
}

/** Waits for the lock of `name`, and has it until the session ends. */
export async function lockForSession(db: Kysely<Warehouse>, kind: LockKind, name: string): Promise<void> {
  try {
    await sql`select pg_advisory_lock(${keyOf(kind, name)})`.execute(db)
  } catch (error) {
    if (sqlstateOf(error) !== SQLSTATE.lockNotAvailable) throw error
    throw Object.assign(error as object, { message: LOCK_TAKEN, detail: await lockHolders(db, kind, name) })
  }
}

/** The sessions that have the lock of `name`, in words; null where nobody has it. */
export async function lockHolders(
  db: Kysely<Warehouse>,
  kind: LockKind,
  name: string,
): Promise<string | null> {
  const { rows } = await sql<{ sessions: string | null }>`
    select intake_ops.lock_holders(${KINDS[kind]}::int, ${name}) as sessions`.execute(db)
  return rows[0]!.sessions
}

/** Whether a session of this database has the lock of `name`; takes no lock itself. */
export function isLocked(kind: LockKind, name: Expression<string>): RawBuilder<boolean> {
  return sql`exists (
    select from pg_locks lock
    where lock.locktype = 'advisory' and lock.objsubid = 1
      and lock.database = (select oid from pg_database where datname = current_database())
      and (lock.classid::bigint << 32 | lock.objid::bigint) = ${keyOf(kind, name)}
  )`
}
