/**
 * The warehouse: whether it is there, is a session's own, holds our schemas as this version knows them, and may be
 * written by this login.
 *
 * Invariant: nothing is left behind; what is written is written to temporary tables.
 */
import { sql } from 'kysely'
import { migrationStatus } from '../../analytics/migrate.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf } from '../../warehouse/sqlstate.ts'
import { type Check, failed, failedBy, ok, warning } from './check.ts'

/** Major versions of Postgres. */
const LEAST = 15
const GREATEST = 18

export interface WarehouseLook {
  readonly checks: readonly Check[]
  /** Open when the rest can be looked at; for the caller to close. */
  readonly session: Session | null
  /** True when the schemas are those of this version. */
  readonly migrated: boolean
}

export async function lookAtWarehouse(url: string): Promise<WarehouseLook> {
  let session: Session
  try {
    session = await openSession({ url, purpose: 'doctor', lockTimeoutMs: 2_000 })
  } catch (error) {
    return { checks: [failedBy('database', error)], session: null, migrated: false }
  }
  await using second = await openSession({ url, purpose: 'doctor' }).catch(() => null)
  const schema = await schemaCheck(url)
  const checks = [
    await serverCheck(session),
    await pooledCheck(session, second),
    await encodingCheck(session),
    await writeCheck(session),
    schema,
  ]
  const migrated = schema.status === 'ok'
  if (migrated) checks.push(await privilegeCheck(session), await rolesCheck(session))
  return { checks, session, migrated }
}

async function serverCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{ version: number; name: string }>`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('server_version') as name`.execute(
    db,
  )
  const { version, name } = rows[0]!
  if (version < LEAST)
    return failed(
      'database',
      `Postgres ${name} is older than ${LEAST}`,
      `use Postgres ${LEAST} to ${GREATEST}`,
    )
  if (version > GREATEST)
    return warning(
      'database',
      `Postgres ${name} is newer than any this was tried with`,
      `use Postgres ${LEAST} to ${GREATEST}`,
    )
  return ok('database', `Postgres ${name} answers`)
}

/** A pooler that lends a server connection for a transaction gives it to the next one who asks. */
export async function pooledCheck(first: Session, second: Session | null): Promise<Check> {
  if (second === null)
    return warning(
      'database sessions',
      'a second connection was refused',
      'leave room for ten connections or more',
    )
  const before = await backendOf(first)
  await second.client.query('begin')
  const other = await backendOf(second)
  const after = await backendOf(first)
  await second.client.query('rollback')
  if (before === after && before !== other)
    return ok('database sessions', 'each connection is a session of its own')
  return failed(
    'database sessions',
    'a pooler lends connections by transaction; temporary tables, locks and LISTEN need a session',
    'point DATABASE_URL at Postgres itself, or at a pool in session mode',
  )
}

async function backendOf({ db }: Session): Promise<number> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
  return rows[0]!.pid
}

async function encodingCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{
    encoding: string
  }>`select current_setting('server_encoding') as encoding`.execute(db)
  const { encoding } = rows[0]!
  if (encoding === 'UTF8') return ok('database encoding', 'UTF8')
  return failed(
    'database encoding',
    `the database is encoded in ${encoding}, which cannot hold every text`,
    "create another: create database … encoding 'UTF8' template template0",
  )
}

const TRIAL_KB = 512

async function writeCheck({ client }: Session): Promise<Check> {
  try {
    await client.query('begin')
    await client.query('create temporary table doctor_trial (body text) on commit drop')
    // Not to be compressed away: the disk has to give the room.
    await client.query(
      `insert into doctor_trial select string_agg(md5(random()::text), '') from generate_series(1, ${TRIAL_KB * 32})`,
    )
    return ok('database writes', 'a write succeeds')
  } catch (error) {
    if (sqlstateOf(error) === SQLSTATE.insufficientPrivilege)
      return failed(
        'database writes',
        'this login may not make temporary tables',
        'grant temporary on database … to it',
      )
    return failedBy('database writes', error)
  } finally {
    await client.query('rollback').catch(() => {})
  }
}

async function schemaCheck(url: string): Promise<Check> {
  try {
    const { applied, pending } = await migrationStatus(url)
    if (pending.length === 0) return ok('schema', `${applied.length} migrations, up to date`)
    const what =
      applied.length === 0
        ? 'the database has no schema of ours yet'
        : `the database is behind by ${pending.length} migration(s)`
    return failed('schema', what, 'run: intake-sync migrate')
  } catch (error) {
    return failedBy('schema', error)
  }
}

/** Each privilege by itself: of several named together Postgres asks for any. Partitions are written through their table. */
async function privilegeCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{ lacking: number }>`
    select count(*) filter (where not (
      select bool_and(has_table_privilege(relation.oid, needed))
      from unnest(array['select', 'insert', 'update', 'delete']) as needed
    ))::int as lacking
    from pg_class relation join pg_namespace schema on schema.oid = relation.relnamespace
    where schema.nspname in ('intake', 'intake_raw', 'intake_ops') and relation.relkind in ('r', 'p')
      and not relation.relispartition and has_schema_privilege(schema.oid, 'usage')
    union all
    select count(*) filter (where not has_schema_privilege(oid, 'usage'))::int from pg_namespace
    where nspname in ('intake', 'intake_raw', 'intake_ops')`.execute(db)
  const lacking = rows.reduce((sum, row) => sum + row.lacking, 0)
  if (lacking === 0) return ok('database privileges', 'this login may write all tables')
  return failed(
    'database privileges',
    `this login may not write ${lacking} of our tables or schemas`,
    'grant intake_loader to it, or connect as the owner of the schemas',
  )
}

const ROLES = ['intake_loader', 'intake_analyst', 'intake_clinical'] as const

async function rolesCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{ role: string; exists: boolean; usable: boolean }>`
    select wanted.role, own.oid is not null as exists,
      coalesce(has_schema_privilege(own.oid, case wanted.role when 'intake_loader' then 'intake_raw' else 'intake_analytics' end, 'usage'), false) as usable
    from unnest(${[...ROLES]}::text[]) as wanted (role) left join pg_roles own on own.rolname = wanted.role`.execute(
    db,
  )
  const missing = rows.filter((row) => !row.exists).map((row) => row.role)
  const hint = 'run intake-sync migrate as a superuser, or as a user that may create and grant roles'
  if (missing.length > 0) return failed('roles', `missing: ${missing.join(', ')}`, hint)
  const ungranted = rows.filter((row) => !row.usable).map((row) => row.role)
  if (ungranted.length > 0) return failed('roles', `without their grants: ${ungranted.join(', ')}`, hint)
  return ok('roles', ROLES.join(', '))
}
