/**
 * The warehouse of the demo: its own embedded server, empty at the start of every demo.
 *
 * Invariant: the demo empties only a warehouse that a demo created. It ignores `DATABASE_URL`, allows one demo at a
 * time per directory, and refuses a warehouse with any other team.
 */
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { migrate } from '../../analytics/migrate.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import type { Session } from '../../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf, warehouseError } from '../../warehouse/sqlstate.ts'
import { DEMO_TEAM } from './service.ts'

/** How long the database session of a killed demo may take to end. */
const PATIENCE_MS = 5_000

/** A sibling of the user's data directory, never that directory itself. */
export function demoDirectory(dataDir: string): string {
  return `${resolve(dataDir)}-demo`
}

/** Locks, empties and migrates the warehouse of `session`. Returns the version of Postgres. */
export async function claimWarehouse(
  session: Session,
  url: string,
  { dataDir, analyticsKey }: { readonly dataDir: string; readonly analyticsKey: string | null },
): Promise<string> {
  try {
    await takeLock(session, dataDir)
    await refuseForeign(session, dataDir)
    const { rows: schemas } = await sql<{ name: string }>`
      select nspname as name from pg_namespace where nspname ~ '^intake(_|$)'`.execute(session.db)
    for (const { name } of schemas) await sql`drop schema ${sql.id(name)} cascade`.execute(session.db)
    await migrate(url, { analyticsKey })
    const { rows } = await sql<{ server_version: string }>`show server_version`.execute(session.db)
    return rows[0]!.server_version
  } catch (error) {
    throw warehouseError(error)
  }
}

async function takeLock(session: Session, dataDir: string): Promise<void> {
  for (const deadline = Date.now() + PATIENCE_MS; !(await tryToLock(session)); await sleep(100)) {
    if (Date.now() < deadline) continue
    throw new IntakeError(`another demo is running in ${dataDir}`, {
      code: 'held_by_another_run',
      verdict: 'stop',
      hint: 'end it with Ctrl-C, or run this one with another INTAKE_DATA_DIR',
    })
  }
}

/** By a fixed key: the server is the demo's own, and its database is empty at first. */
async function tryToLock({ db }: Session): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`
    select pg_try_advisory_lock(7204312, hashtext('demo')) as locked`.execute(db)
  return rows[0]?.locked === true
}

async function refuseForeign(session: Session, dataDir: string): Promise<void> {
  const names = await teamNames(session)
  if (names.every((name) => name === DEMO_TEAM)) return
  throw new UsageError(
    `${dataDir} contains a warehouse that is not the demo’s, and the demo would empty it`,
    'set INTAKE_DATA_DIR to another directory; the demo uses a sibling of it whose name ends with -demo',
    'INTAKE_DATA_DIR',
    'data_dir_unusable',
  )
}

async function teamNames(session: Session): Promise<readonly string[]> {
  try {
    const { rows } = await sql<{ name: string }>`select name from intake.teams`.execute(session.db)
    return rows.map((row) => row.name)
  } catch (error) {
    if (sqlstateOf(error) === SQLSTATE.undefinedTable || sqlstateOf(error) === '3F000') return []
    throw error
  }
}

/** A moment in the warehouse's history, for `rowVersionsSince`. */
export async function markNow(session: Session): Promise<string> {
  const { rows } = await sql<{ mark: string }>`
    select pg_snapshot_xmax(pg_current_snapshot())::text as mark`.execute(session.db)
  return rows[0]!.mark
}

/** Row versions written since `mark` to the tables that a backfill of an unchanged source leaves alone. */
export async function rowVersionsSince(session: Session, mark: string): Promise<number> {
  const { rows: tables } = await sql<{ name: string }>`
    select schemaname || '.' || tablename as name from pg_tables
    where (schemaname = 'intake' and tablename <> 'teams')
       or (schemaname = 'intake_raw' and tablename in ('records', 'record_history'))`.execute(session.db)
  let versions = 0
  for (const { name } of tables) {
    const { rows } = await sql<{ written: number }>`
      select count(*)::int as written from ${sql.table(name)}
      where xmin::text::bigint >= ${mark}::bigint`.execute(session.db)
    versions += rows[0]!.written
  }
  return versions
}
