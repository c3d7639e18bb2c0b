/**
 * Checks of the warehouse: reachable, a session for each connection, the schemas of this version, and the privileges to
 * write them.
 *
 * Invariant: writes only to temporary tables.
 */
import { sql } from 'kysely'
import { waitingQuestions, waitingText } from '../../analytics/classify.ts'
import { encodingProblem, migrationStatus } from '../../analytics/migrate.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf } from '../../warehouse/sqlstate.ts'
import { readWaitingSlices, WAITING_SLICES_HINT, waitingSlicesText } from '../health/runs.ts'
import { type Check, failed, failedBy, ok, warning } from './check.ts'

/** Major versions of Postgres. */
const OLDEST = 15
const NEWEST = 18

export interface WarehouseChecks {
  readonly checks: readonly Check[]
  /** Null if the warehouse is unreachable. The caller closes it. */
  readonly session: Session | null
  /** Whether the schemas are those of this version. */
  readonly migrated: boolean
}

export async function checkWarehouse(url: string): Promise<WarehouseChecks> {
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
    await transportCheck(session, url),
    await pooledCheck(session, second),
    await encodingCheck(session),
    await writeCheck(session),
    schema,
  ]
  const migrated = schema.status === 'ok'
  if (migrated)
    for (const check of [privilegeCheck, rolesCheck, questionsCheck, slicesCheck])
      checks.push(await check(session))
  return { checks, session, migrated }
}

async function transportCheck({ db }: Session, url: string): Promise<Check> {
  const { rows } = await sql<Transport>`
    select ssl.version as "tls", coalesce(
        activity.client_addr <<= '127.0.0.0/8' or activity.client_addr = '::1', true) as "isLocal"
    from pg_stat_activity activity left join pg_stat_ssl ssl on ssl.pid = activity.pid and ssl.ssl
    where activity.pid = pg_backend_pid()`.execute(db)
  return judgeTransport(rows[0]!, verifiesServer(url))
}

export function verifiesServer(url: string): boolean {
  return /[?&]sslmode=verify-(?:full|ca)(?:&|$)/.test(url)
}

export interface Transport {
  /** Version of TLS; null without. */
  readonly tls: string | null
  /** Over loopback or a Unix socket. */
  readonly isLocal: boolean
}

export function judgeTransport({ tls, isLocal }: Transport, isVerified: boolean): Check {
  const name = 'database transport'
  if (tls !== null && isVerified) return ok(name, `${tls}, and the server is verified`)
  if (isLocal) return ok(name, 'within this machine')
  const what = tls === null ? 'not encrypted' : `${tls}, but the server is not verified`
  return warning(name, what, 'set sslmode=verify-full in DATABASE_URL, unless the network is private')
}

async function serverCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{ version: number; name: string }>`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('server_version') as name`.execute(
    db,
  )
  const { version, name } = rows[0]!
  return judgeServer(version, name)
}

/** `version`: the major one. */
export function judgeServer(version: number, name: string): Check {
  const hint = `use Postgres ${OLDEST} to ${NEWEST}`
  if (version < OLDEST) return failed('database', `Postgres ${name} is older than ${OLDEST}`, hint)
  if (version > NEWEST) return warning('database', `Postgres ${name} is newer than the tested versions`, hint)
  return ok('database', `Postgres ${name}`)
}

/** Detects a pooler in transaction mode: its server connection changes once another session begins a transaction. */
export async function pooledCheck(first: Session, second: Session | null): Promise<Check> {
  if (second === null)
    return warning('database sessions', 'a second connection was refused', 'allow at least ten connections')
  const before = await backendOf(first)
  await second.client.query('begin')
  const other = await backendOf(second)
  const after = await backendOf(first)
  await second.client.query('rollback')
  if (before === after && before !== other) return await settingsCheck(first)
  return failed(
    'database sessions',
    'a pooler lends connections by transaction; temporary tables, locks and LISTEN need a session',
    'point DATABASE_URL at Postgres itself, or at a pool in session mode',
  )
}

/** Detects a pooler that connects without the settings it is given, among them the lock timeout. */
async function settingsCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{
    source: string
  }>`select source from pg_settings where name = 'lock_timeout'`.execute(db)
  if (rows[0]?.source === 'client') return ok('database sessions', 'each connection has its own session')
  return failed(
    'database sessions',
    'a pooler ignores the settings of a connection; without them, statements wait for locks forever',
    'point DATABASE_URL at Postgres itself',
  )
}

async function backendOf({ db }: Session): Promise<number> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
  return rows[0]!.pid
}

async function encodingCheck({ db }: Session): Promise<Check> {
  const problem = await encodingProblem(db)
  if (problem === null) return ok('database encoding', 'UTF8')
  return failed('database encoding', problem.message, problem.hint)
}

const TRIAL_KB = 512

async function writeCheck({ client }: Session): Promise<Check> {
  try {
    await client.query('begin')
    await client.query('create temporary table doctor_trial (body text) on commit drop')
    // Random text, so that compression does not reduce what the disk has to store.
    await client.query(
      `insert into doctor_trial select string_agg(md5(random()::text), '') from generate_series(1, ${TRIAL_KB * 32})`,
    )
    return ok('database writes', 'a write succeeds')
  } catch (error) {
    if (sqlstateOf(error) === SQLSTATE.insufficientPrivilege)
      return failed(
        'database writes',
        'this login may not create temporary tables',
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
        ? 'the database has no schema of intake-sync yet'
        : `the database is behind by ${pending.length} migration(s)`
    return failed('schema', what, 'run intake-sync migrate')
  } catch (error) {
    return failedBy('schema', error)
  }
}

/**
 * Checks each privilege separately, because Postgres returns true if any privilege of a list is granted. Partitions are
 * written through their parent.
 */
async function privilegeCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{ denied: number }>`
    select count(*) filter (where not (
      select bool_and(has_table_privilege(relation.oid, needed))
      from unnest(array['select', 'insert', 'update', 'delete']) as needed
    ))::int as denied
    from pg_class relation join pg_namespace schema on schema.oid = relation.relnamespace
    where schema.nspname in ('intake', 'intake_raw', 'intake_ops') and relation.relkind in ('r', 'p')
      and not relation.relispartition and has_schema_privilege(schema.oid, 'usage')
    union all
    select count(*) filter (where not has_schema_privilege(oid, 'usage'))::int from pg_namespace
    where nspname in ('intake', 'intake_raw', 'intake_ops')`.execute(db)
  const denied = rows.reduce((sum, row) => sum + row.denied, 0)
  if (denied === 0) return ok('database privileges', 'this login may write every table')
  return failed(
    'database privileges',
    `this login may not write ${denied} of the tables or schemas of intake-sync`,
    'grant intake_loader to it, or connect as the owner of the schemas',
  )
}

const ROLES = ['intake_loader', 'intake_analyst', 'intake_clinical', 'intake_researcher'] as const

async function rolesCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{ role: string; exists: boolean; usable: boolean }>`
    select wanted.role, own.oid is not null as exists,
      coalesce(has_schema_privilege(own.oid, case wanted.role when 'intake_loader' then 'intake_raw' when 'intake_researcher' then 'intake_safe_harbor' else 'intake_analytics' end, 'usage'), false) as usable
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

/** Answers to a reworded question are hidden from analysts until somebody decides on it. */
async function questionsCheck({ db }: Session): Promise<Check> {
  try {
    const waiting = await waitingQuestions(db)
    if (waiting.length === 0) return ok('questions', 'no reworded question waits for a decision')
    const [what] = waitingText(waiting).split('; ')
    return warning('questions', what!, 'intake-sync classify list --waiting, then classify set')
  } catch (error) {
    return failedBy('questions', error)
  }
}

/** Planned runs that no worker executes. */
async function slicesCheck({ db }: Session): Promise<Check> {
  try {
    const waiting = await readWaitingSlices(db)
    if (waiting.length === 0) return ok('slices', 'no planned run waits for a worker')
    const texts = waiting.map((each) => `${each.team}: ${waitingSlicesText(each)}`)
    return warning('slices', texts.join('; '), WAITING_SLICES_HINT)
  } catch (error) {
    return failedBy('slices', error)
  }
}
