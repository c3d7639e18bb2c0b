/**
 * Connections to the warehouse. `DATABASE_URL` is direct or session-pooled: temporary tables, advisory locks and
 * LISTEN belong to a session.
 *
 * Invariant: every session uses UTF-8, UTC and ISO dates, has a lock timeout and no other timeout, whatever the login,
 * the database or `options` of DATABASE_URL set, and is named in pg_stat_activity.
 */
import { Kysely, PostgresAdapter, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { SQLSTATE, sqlstateOf, warehouseError } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

/** Compiling a plan takes longer than our statements run. */
const NO_JIT = 'jit=off'

/**
 * Loading and draining: a few thousand keys of tables of any size. A prepared statement keeps the plan that it got while
 * a table had one page, where reading the page is cheaper than the index. The table may grow by a hundred thousand rows
 * before autovacuum counts it again, and each lookup would read it all.
 */
const BY_KEY = ['enable_seqscan=off', NO_JIT]

/**
 * Planner settings of sessions, each with its reason. Statements look up rows by key, and the plans of most are right
 * without any setting (test/load/merge/plans.long.test.ts); these are for what a statement cannot say.
 */
export const PLANNER = {
  load: BY_KEY,
  /** Events are taken in the order of an index, from a partition that may have no statistics yet. */
  drain: [...BY_KEY, 'enable_bitmapscan=off'],
  /** The statement that stores events joins nothing but lookups, and is never worth planning again. */
  inbox: [...BY_KEY, 'plan_cache_mode=force_generic_plan', 'enable_hashjoin=off', 'enable_mergejoin=off'],
  /**
   * Comparing all records with a temporary table of all seen ids or all expected rows, once a run. A temporary table has
   * no statistics, and a plan that looks up its rows one by one would make a scan quadratic.
   */
  compare: ['enable_nestloop=off', NO_JIT],
} as const satisfies Readonly<Record<string, readonly string[]>>

/** In a transaction of a `compare` session: a portion of keys is looked up. Until the transaction ends. */
export const LOOK_UP_IN_TRANSACTION = 'set local enable_nestloop = on; set local enable_seqscan = off'

/** As `LOOK_UP_IN_TRANSACTION`, where small tables are read as a whole too. */
export const NESTED_LOOPS_IN_TRANSACTION = 'set local enable_nestloop = on'

/**
 * In a transaction that deletes by ranges of pages, which only a TID range scan reads alone: an index scan would read
 * all remaining rows of a team for each range. Until the transaction ends.
 */
export const TID_SCANS_IN_TRANSACTION = `select set_config(setting, 'off', true)
  from unnest(array['enable_indexscan', 'enable_bitmapscan', 'enable_seqscan']) as setting`

/** How long a statement waits for a lock that another session holds. */
export const LOCK_TIMEOUT_MS = 10_000

/** How long a server may take to open a session. */
const CONNECT_TIMEOUT_MS = 10_000

/** How long a server may take to close a session. */
const CLOSE_TIMEOUT_MS = 2_000

/**
 * A host that vanished releases its locks after eleven seconds. No tcp_user_timeout: Linux would also end the sessions of
 * a client that reads slowly, as one does that waits for the service.
 */
const KEEPALIVES = ['tcp_keepalives_idle=5', 'tcp_keepalives_interval=2', 'tcp_keepalives_count=3']

export interface ConnectionOptions {
  readonly url: string
  /** Shown in pg_stat_activity, after "intake-sync". */
  readonly purpose: string
  readonly lockTimeoutMs?: number
  /** Timeout for connecting; ten seconds when left out. */
  readonly connectTimeoutMs?: number
  /** Eight digits of the worker for which the session is: others end all of its sessions by them. */
  readonly worker?: string | undefined
  /** Planner settings of the session, for statements whose best plan is known. */
  readonly planner?: readonly string[]
}

/** One session of its own, for COPY, temporary tables and advisory locks. */
export interface Session extends AsyncDisposable {
  readonly client: pg.Client
  readonly db: Kysely<Warehouse>
  /** A statement that is still running fails. Waits two seconds for the server, then destroys the socket. */
  close(): Promise<void>
}

export async function openSession(options: ConnectionOptions): Promise<Session> {
  const client = new pg.Client(settings(options))
  client.on('error', () => {})
  try {
    await client.connect()
    await unlimitTransactions(client, options)
  } catch (error) {
    destroySocket(client)
    throw warehouseError(error)
  }
  const db = databaseOf(client)
  const close = async () => {
    const late = setTimeout(() => destroySocket(client), CLOSE_TIMEOUT_MS)
    await client.end().catch(() => {})
    clearTimeout(late)
  }
  return { client, db, close, [Symbol.asyncDispose]: close }
}

/**
 * Turns transaction_timeout off, by a statement: Postgres 16 and earlier do not know it, and refuse a session that sets it
 * when it opens.
 */
async function unlimitTransactions(
  client: pg.ClientBase,
  { connectTimeoutMs }: ConnectionOptions,
): Promise<void> {
  const query = {
    text: `select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) <> '0'`,
    query_timeout: connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
  }
  await client.query(query)
}

/** Destroys the socket of a connection: everything that waits for its answers fails. */
export function destroySocket(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}

/** Statements of one connection, which run in the order they are given. */
export function databaseOf(client: pg.ClientBase): Kysely<Warehouse> {
  // kysely sees the client as a pool of one, and may not release it.
  const query = (...words: Parameters<typeof client.query>) => client.query(...words)
  const only = { query, release: () => {} }
  const pool = { connect: async () => only, end: async () => {} }
  return new Kysely<Warehouse>({ dialect: new Dialect({ pool: pool as unknown as pg.Pool }) })
}

/** Without the migrator's own advisory lock, which any login could take. `migrate` takes a private one (analytics/migrate). */
class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    const adapter = new PostgresAdapter()
    adapter.acquireMigrationLock = async () => {}
    return adapter
  }
}

export interface PoolOptions extends ConnectionOptions {
  /** At most this many at once. */
  readonly connections: number
  /** A connection that was not used for this long is closed. */
  readonly idleMs: number
}

/** Connections that take turns. The process may end while some of them are idle. */
export function openPool({ connections, idleMs, ...options }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    ...settings(options),
    max: connections,
    onConnect: (client) => unlimitTransactions(client, options),
    idleTimeoutMillis: idleMs,
    allowExitOnIdle: true,
  })
  pool.on('error', () => {})
  // A pool listens to idle connections only. One that breaks while it is in use fails its query or the next one.
  pool.on('connect', (client) => void client.on('error', () => {}))
  return pool
}

function settings(options: ConnectionOptions): pg.ClientConfig {
  const lockTimeout = options.lockTimeoutMs ?? LOCK_TIMEOUT_MS
  const { url, given } = withoutOptions(options.url)
  const sessionSettings = [
    'client_encoding=UTF8',
    'timezone=UTC',
    'datestyle=ISO',
    `lock_timeout=${lockTimeout}`,
    'statement_timeout=0',
    'idle_in_transaction_session_timeout=0',
    'idle_session_timeout=0',
    ...KEEPALIVES,
    'standard_conforming_strings=on',
    ...(options.planner ?? []),
  ]
  return {
    connectionString: url,
    application_name: `intake-sync ${options.purpose}${options.worker === undefined ? '' : ` worker ${options.worker}`}`,
    connectionTimeoutMillis: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    // The later of two settings with one name applies.
    options: [given, ...sessionSettings.map((setting) => `-c ${setting}`)].join(' ').trim(),
  }
}

/** Separates the `options` of a connection string: pg would use them instead of ours. */
function withoutOptions(text: string): { url: string; given: string } {
  const start = text.indexOf('?')
  const parameters = new URLSearchParams(start < 0 ? '' : text.slice(start + 1))
  const given = parameters.getAll('options').join(' ')
  if (given === '') return { url: text, given }
  parameters.delete('options')
  return { url: `${text.slice(0, start)}?${parameters}`, given }
}

/**
 * One query among several of a session, with its own time limit.
 *
 * Invariant: a query that takes longer, or waits for a lock that long, is canceled and returns null; the session stays
 * usable. Any other error is thrown.
 */
export async function withinBudget<Result>(
  db: Kysely<Warehouse>,
  milliseconds: number,
  look: (db: Kysely<Warehouse>) => Promise<Result>,
): Promise<Result | null> {
  await sql`
    select set_config('statement_timeout', own.value, false), set_config('lock_timeout', own.value, false)
    from (values (${String(Math.max(1, Math.ceil(milliseconds)))}::text)) as own (value)`.execute(db)
  try {
    return await look(db)
  } catch (error) {
    const state = sqlstateOf(error)
    if (state === SQLSTATE.queryCanceled || state === SQLSTATE.lockNotAvailable) return null
    throw error
  } finally {
    await sql`
      select set_config(name, reset_val, false) from pg_settings where name in ('statement_timeout', 'lock_timeout')`
      .execute(db)
      .catch(() => {})
  }
}
