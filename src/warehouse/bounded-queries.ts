/**
 * Queries of the warehouse with a deadline, for callers that must answer in time.
 *
 * Invariant: ends within its limit, also when the server hangs, and leaves no statement running there. The connections are
 * its own, so that a probe is answered while every loading connection is busy. They are bounded, opened when they are
 * needed and closed when they are idle; one on which a query failed is not used again.
 */
import { type Kysely, sql } from 'kysely'
import type pg from 'pg'
import { IntakeError } from '../core/errors.ts'
import { databaseOf, destroySocket, openPool } from './connect.ts'
import { warehouseError } from './sqlstate.ts'
import type { Warehouse } from './tables.ts'

export interface BoundedQueryOptions {
  /** Shown in pg_stat_activity, after "intake-sync". */
  readonly purpose: string
  /** Limit for the whole call: the wait for a connection, connecting, and the queries. */
  readonly milliseconds: number
}

export interface BoundedQueries extends AsyncDisposable {
  run<Result>(options: BoundedQueryOptions, work: (db: Kysely<Warehouse>) => Promise<Result>): Promise<Result>
  close(): Promise<void>
}

/** For queries of less than two seconds; one that takes longer would make the others wait. */
const CONNECTIONS = 4
/** Shorter than firewalls keep an idle connection. */
const IDLE_MS = 30_000
const CLOSE_MS = 1_000
/** A late statement ends in Postgres this much after the call, so that the reason does not depend on a race. */
const GRACE_MS = 100

export function openBoundedQueries(url: string, connections = CONNECTIONS): BoundedQueries {
  const pool = openPool({ url, purpose: 'bounded query', connections, idleMs: IDLE_MS })
  const inUse = new Set<pg.PoolClient>()
  let closing: Promise<unknown> | undefined
  const close = async () => {
    // A server that hangs is not waited for.
    const limit = new Promise<void>((resolve) => {
      setTimeout(resolve, CLOSE_MS).unref()
    })
    closing ??= Promise.race([pool.end(), limit]).then(() => {
      for (const client of inUse) discard(inUse, client)
    })
    await closing
  }
  return {
    run: (options, work) => run({ pool, inUse }, options, work),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** One query on a connection of its own, for callers that query rarely or for long. */
export async function boundedQuery<Result>(
  { url, ...options }: BoundedQueryOptions & { readonly url: string },
  work: (db: Kysely<Warehouse>) => Promise<Result>,
): Promise<Result> {
  const bounded = openBoundedQueries(url, 1)
  try {
    return await bounded.run(options, work)
  } finally {
    void bounded.close()
  }
}

interface Connections {
  readonly pool: pg.Pool
  /** Connections of running queries. */
  readonly inUse: Set<pg.PoolClient>
}

async function run<Result>(
  { pool, inUse }: Connections,
  { purpose, milliseconds }: BoundedQueryOptions,
  work: (db: Kysely<Warehouse>) => Promise<Result>,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(timedOut()), milliseconds)
  })
  const connecting = pool.connect()
  let client: pg.PoolClient | undefined
  try {
    client = await Promise.race([connecting, late])
    inUse.add(client)
    const db = databaseOf(client)
    const named = sql`select set_config('statement_timeout', ${`${milliseconds + GRACE_MS}`}, false),
      set_config('application_name', ${`intake-sync ${purpose}`}, false)`.execute(db)
    const result = await Promise.race([named.then(() => work(db)), late])
    if (inUse.delete(client)) client.release()
    return result
  } catch (error) {
    if (client !== undefined) discard(inUse, client)
    // A connection that comes too late serves others.
    else connecting.then((free) => free.release()).catch(() => {})
    throw warehouseError(error)
  } finally {
    clearTimeout(timer)
  }
}

/** Ends a statement that is still running, and any transaction or lock; a server that hangs is not waited for. */
function discard(inUse: Set<pg.PoolClient>, client: pg.PoolClient): void {
  if (!inUse.delete(client)) return
  client.release(true)
  destroySocket(client)
}

/** The code of a failure to answer in time. */
export const TIMED_OUT = 'warehouse_slow'

export function timedOut(): IntakeError {
  return new IntakeError('the warehouse did not answer in time', {
    code: TIMED_OUT,
    verdict: 'retry',
    hint: 'look at its load and its locks (pg_stat_activity)',
  })
}
