/**
 * Connections to the warehouse. `DATABASE_URL` is direct or session-pooled: temporary tables, advisory locks and
 * LISTEN belong to a session.
 *
 * Invariant: every session speaks UTF-8, UTC and ISO dates, gives up waiting for a lock after a while, and is named
 * in pg_stat_activity.
 */
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { warehouseError } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

/** How long a statement waits for a lock that another session holds. */
export const LOCK_TIMEOUT_MS = 10_000

export interface ConnectionOptions {
  readonly url: string
  /** Shown in pg_stat_activity, after "intake-sync". */
  readonly purpose: string
  readonly lockTimeoutMs?: number
  /** Planner settings of the session, for statements whose one right plan is known. */
  readonly planner?: readonly string[]
}

export interface WarehousePool extends AsyncDisposable {
  readonly db: Kysely<Warehouse>
  readonly pool: pg.Pool
  close(): Promise<void>
}

export function openPool(options: ConnectionOptions & { readonly max?: number }): WarehousePool {
  const pool = new pg.Pool({ ...settings(options), max: options.max ?? 4, idleTimeoutMillis: 10_000 })
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on('error', () => {})
  const db = new Kysely<Warehouse>({ dialect: new PostgresDialect({ pool }) })
  const close = async () => {
    await db.destroy()
  }
  return { db, pool, close, [Symbol.asyncDispose]: close }
}

/** One session of its own, for COPY, temporary tables and advisory locks. */
export interface Session extends AsyncDisposable {
  readonly client: pg.Client
  readonly db: Kysely<Warehouse>
  close(): Promise<void>
}

export async function openSession(options: ConnectionOptions): Promise<Session> {
  const client = new pg.Client(settings(options))
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    throw warehouseError(error)
  }
  // kysely sees the one client as a pool of one: statements of the session run in the order they are given.
  const pool = { connect: async () => Object.assign(client, { release: () => {} }), end: async () => {} }
  const db = new Kysely<Warehouse>({ dialect: new PostgresDialect({ pool: pool as unknown as pg.Pool }) })
  const close = async () => {
    await client.end().catch(() => {})
  }
  return { client, db, close, [Symbol.asyncDispose]: close }
}

function settings(options: ConnectionOptions): pg.ClientConfig {
  const lockTimeout = options.lockTimeoutMs ?? LOCK_TIMEOUT_MS
  const planner = (options.planner ?? []).map((setting) => ` -c ${setting}`).join('')
  return {
    connectionString: options.url,
    application_name: `intake-sync ${options.purpose}`,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    options: `-c client_encoding=UTF8 -c timezone=UTC -c datestyle=ISO -c lock_timeout=${lockTimeout} -c standard_conforming_strings=on${planner}`,
  }
}
