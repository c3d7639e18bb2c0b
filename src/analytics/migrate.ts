/**
 * Brings the schemas of a warehouse up to date.
 *
 * Invariant: at most one process migrates a database at a time (an advisory lock of its own, since the migrator takes
 * its lock only after it has created its tables). Either all pending migrations are applied or none; only one that
 * runs in batches divides them: those before it stay applied, and a later call continues where it ended.
 */
import { type Kysely, Migrator, sql } from 'kysely'
import { IntakeError } from '../core/errors.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { lockForSession } from '../warehouse/locks.ts'
import {
  type Applied,
  appliedTo,
  ensureRoles,
  migrationFiles,
  runsInBatches,
  sqlFile,
  statementsIn,
} from '../warehouse/migrations.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { syncInstruments } from './instruments.ts'
import { refreshAnalytics } from './refresh.ts'
import { syncViews } from './views.ts'

/** Key of the advisory lock under which a database is migrated that has none of its own yet. */
const MIGRATION_LOCK = 7_204_310_001

export interface MigrationStatus {
  readonly applied: readonly string[]
  readonly pending: readonly string[]
}

export interface MigrationReport extends MigrationStatus {
  /** Applied by this call. */
  readonly migrated: readonly string[]
  /** Why roles could not be created or granted; null when they are in place. */
  readonly rolesNote: string | null
  /** Other notes for the user: why views are not up to date, or that the pseudonyms changed. */
  readonly notes: readonly string[]
}

export interface MigrationOptions {
  /** Key of the pseudonyms; without it the current key stays. */
  readonly analyticsKey?: string | null
}

/** Applies what is pending and makes the views that changed. Safe to call at any time and from several processes at once. */
export async function migrate(url: string, options: MigrationOptions = {}): Promise<MigrationReport> {
  await using session = await openSession({ url, purpose: 'migrate', lockTimeoutMs: 60_000 })
  try {
    await lockMigration(session)
    const before = await statusOf(session)
    refuseNewer(before.unknown)
    if (before.pending.length > 0) {
      await refuseEncoding(session.db)
      for (const group of await groupsOf(before.pending)) await applyGroup(session, group)
      await lockMigration(session)
    }
    await syncViews(session.db)
    await syncInstruments(session.db)
    const stale = await refreshAnalytics(session.db)
    const rekeyed = options.analyticsKey ? await useAnalyticsKey(session.db, options.analyticsKey) : null
    const rolesNote = await ensureRoles(session.db)
    const after = await statusOf(session)
    const notes = [stale, rekeyed].filter((note) => note !== null)
    return { applied: after.applied, pending: after.pending, migrated: before.pending, rolesNote, notes }
  } catch (error) {
    throw warehouseError(error)
  }
}

/**
 * Waits for other processes that migrate. A database of ours has a lock that nobody else can take; for a new one, and one
 * of an older version, the key is fixed.
 */
async function lockMigration({ db }: Session): Promise<void> {
  if (!(await hasPrivateLocks(db))) await sql`select pg_advisory_lock(${sql.lit(MIGRATION_LOCK)})`.execute(db)
  // It may have been migrated meanwhile.
  if (await hasPrivateLocks(db)) await lockForSession(db, 'migration', 'migration')
}

async function hasPrivateLocks(db: Kysely<Warehouse>): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`
    select to_regprocedure('intake_ops.lock_key(int, text)') is not null as has`.execute(db)
  return rows[0]!.has
}

/** Applied and pending migrations; changes nothing. In a database without our schemas all are pending. */
export async function migrationStatus(url: string): Promise<MigrationStatus> {
  await using session = await openSession({ url, purpose: 'migrate --status' })
  try {
    const { unknown, ...status } = await statusOf(session)
    refuseNewer(unknown)
    return status
  } catch (error) {
    throw warehouseError(error)
  }
}

/** Throws, with a hint, if the database is behind this version. */
export async function requireMigrated(url: string): Promise<void> {
  const { applied, pending } = await migrationStatus(url)
  if (pending.length === 0) return
  const what =
    applied.length === 0
      ? 'the database has no schema of intake-sync yet'
      : `the database is behind this version by ${pending.length} migration(s)`
  throw new IntakeError(what, {
    code: 'database_behind',
    verdict: 'stop',
    hint: 'run intake-sync migrate',
  })
}

interface Group {
  /** Runs in batches before the names are applied; it is the first of them. */
  readonly batches: string | null
  readonly names: readonly string[]
}

/** Each group is one transaction. */
async function groupsOf(pending: readonly string[]): Promise<readonly Group[]> {
  const groups: { batches: string | null; names: string[] }[] = []
  for (const name of pending) {
    const text = await sqlFile(`migrations/${name}.sql`)
    if (runsInBatches(text)) groups.push({ batches: text, names: [name] })
    else if (groups.length === 0) groups.push({ batches: null, names: [name] })
    else groups.at(-1)!.names.push(name)
  }
  return groups
}

async function applyGroup(session: Session, { batches, names }: Group): Promise<void> {
  if (batches !== null) {
    try {
      await runBatches(session, batches)
    } catch (error) {
      throw migrationFailed(names[0]!, error, 'what is done stays; intake-sync migrate goes on from there')
    }
  }
  const migrator = new Migrator({
    db: session.db,
    provider: migrationFiles,
    migrationTableSchema: 'intake_ops',
    migrationTableName: 'migrations',
    migrationLockTableName: 'migrations_lock',
  })
  const { error, results } = await migrator.migrateTo(names.at(-1)!)
  if (error === undefined) return
  const failed = results?.find((result) => result.status === 'Error')?.migrationName
  throw migrationFailed(failed ?? '(none started)', error, 'nothing was changed')
}

/** Each statement commits on its own, again and again until it changes no row. */
async function runBatches({ client }: Session, text: string): Promise<void> {
  for (const statement of statementsIn(text)) while (((await client.query(statement)).rowCount ?? 0) > 0);
}

/** Why the database may not be able to store every text, and what to do; null if it is encoded in UTF-8. */
export async function encodingProblem(
  db: Kysely<Warehouse>,
): Promise<{ readonly encoding: string; readonly message: string; readonly hint: string } | null> {
  const { rows } = await sql<{
    encoding: string
  }>`select current_setting('server_encoding') as encoding`.execute(db)
  const { encoding } = rows[0]!
  if (encoding === 'UTF8') return null
  return {
    encoding,
    message: `the database is encoded in ${encoding}, which cannot store every text`,
    hint: "create a new one: create database … encoding 'UTF8' template template0",
  }
}

/** SQL_ASCII stores the bytes of any text; every other encoding lacks characters that our own migrations contain. */
async function refuseEncoding(db: Kysely<Warehouse>): Promise<void> {
  const problem = await encodingProblem(db)
  if (problem === null || problem.encoding === 'SQL_ASCII') return
  const { message, hint } = problem
  throw new IntakeError(`${message}; nothing was changed`, {
    code: 'migration_failed',
    verdict: 'stop',
    hint,
  })
}

function migrationFailed(name: string, error: unknown, state: string): IntakeError {
  const cause = warehouseError(error)
  return new IntakeError(`migration ${name} failed: ${cause.message}; ${state}`, {
    code: 'migration_failed',
    verdict: cause.verdict,
    cause: error,
    ...(cause.hint === undefined ? {} : { hint: cause.hint }),
  })
}

async function statusOf(session: Session): Promise<MigrationStatus & { unknown: readonly Applied[] }> {
  const known = Object.keys(await migrationFiles.getMigrations()).sort()
  const applied = await appliedTo(session.db)
  const names = new Set(applied.map(({ name }) => name))
  return {
    applied: known.filter((name) => names.has(name)),
    pending: known.filter((name) => !names.has(name)),
    unknown: applied.filter(({ name }) => !known.includes(name)),
  }
}

/** There is no way back but a backup: a newer version may have written what this one cannot read. */
function refuseNewer(unknown: readonly Applied[]): void {
  const [first] = unknown
  if (first === undefined) return
  const names = unknown.map(({ name }) => name).join(', ')
  throw new IntakeError(`the database was migrated by a newer version (${names})`, {
    code: 'database_ahead',
    verdict: 'stop',
    hint: `use the newer version of intake-sync; a downgrade is not possible: for this version, restore a backup of the warehouse from before ${first.timestamp}`,
  })
}

/**
 * Sets the key of the pseudonyms to INTAKE_ANALYTICS_KEY; without one, the key generated with the schema stays. Returns a
 * note if the pseudonyms changed; else null.
 *
 * Invariant: the key itself is never stored, only the two blocks that HMAC makes of it; a configured key that is the
 * one in use changes nothing, another one changes every pseudonym.
 */
async function useAnalyticsKey(db: Kysely<Warehouse>, key: string): Promise<string | null> {
  const { rows } = await sql<{ named: boolean }>`
    with wanted as (
      select intake_ops.hmac_pad(${Buffer.from(key)}, 54) as inner_pad, intake_ops.hmac_pad(${Buffer.from(key)}, 92) as outer_pad
    )
    update intake_ops.analytics_key own
    set inner_pad = wanted.inner_pad, outer_pad = wanted.outer_pad, origin = 'configured', set_at = now()
    from wanted
    where own.inner_pad <> wanted.inner_pad
    returning exists (select from intake.patients) as named`.execute(db)
  return rows[0]?.named
    ? 'INTAKE_ANALYTICS_KEY is another than before: every pseudonym in intake_analytics changed'
    : null
}
