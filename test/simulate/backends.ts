/**
 * The real Postgres sessions of simulated clients. They are reused, because opening one costs as much as a dozen
 * statements.
 *
 * Invariant: a session is handed out with its requested settings, outside of a transaction and without locks. Its
 * `now()` is the scheduler's time at the start of its transaction.
 */
import type { EventEmitter } from 'node:events'
import type { Writable } from 'node:stream'
import pg from 'pg'

/** Statements that depend on the time, or that fill columns with it. */
const TELLS_TIME = /now\(\)|_timestamp|\b(?:insert|update|copy|delete)\b/i

export interface Backend {
  readonly client: pg.Client
  /** Sends a statement together with the next one, and expects that it succeeds. */
  readonly ahead: (text: string) => void
  readonly key: string
  /** State of its transaction: idle, open, or failed. */
  status: 'I' | 'T' | 'E'
  time: number | null
  /** True if the time was set for this transaction only. */
  isLocal: boolean
  locks: boolean
  /** In pg_stat_activity; null while it has no name of its own. */
  name: string | null
}

export interface Backends {
  /** Number of sessions in use. */
  readonly taken: number
  take(settings: string, name: string | null): Promise<Backend>
  processIdOf(backend: Backend): number
  /** Does what Postgres does when a client is gone. */
  release(backend: Backend): Promise<void>
  /** Sets the time of the session, if `text` uses it; call it right before `text` is sent. */
  tell(backend: Backend, now: number, text: string): void
  /** Begins a transaction at this time. */
  begin(backend: Backend, now: number): Promise<unknown>
  isBlocked(backend: Backend): Promise<boolean>
  cancel(backend: Backend): Promise<void>
  close(): Promise<void>
}

const RealClient = pg.Client

export function openBackends(url: string): Backends {
  const free = new Map<string, Backend[]>()
  const all = new Set<Backend>()
  let monitor: Promise<pg.Client> | null = null

  async function connect(options: string): Promise<pg.Client> {
    const client = new RealClient({ connectionString: url, options, application_name: 'simulation' })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  async function watch<Row extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<Row[]> {
    monitor ??= connect('-c timezone=UTC')
    return (await (await monitor).query<Row>(text, values)).rows
  }

  let taken = 0
  return {
    get taken() {
      return taken
    },
    processIdOf,
    async take(settings, name) {
      taken += 1
      const idle = free.get(settings)?.pop()
      if (idle !== undefined) {
        await rename(idle, name)
        return idle
      }
      // A deadlock is ended by the lock timeout, in the scheduler's time.
      const options = `${settings} -c deadlock_timeout=1h -c search_path=sim,pg_catalog,public`
      const client = await connect(options)
      const backend: Backend = {
        client,
        ahead: sendsAhead(client),
        key: settings,
        status: 'I',
        time: null,
        isLocal: false,
        locks: false,
        name: null,
      }
      const { connection } = client as unknown as { connection: pg.Connection }
      connection.on('readyForQuery', ({ status }: { status: Backend['status'] }) => {
        backend.status = status
        if (status !== 'I' || !backend.isLocal) return
        backend.isLocal = false
        backend.time = null
      })
      all.add(backend)
      await rename(backend, name)
      return backend
    },
    async release(backend) {
      const { client, key } = backend
      if (backend.status !== 'I') await client.query('rollback')
      if (backend.locks) await client.query('select pg_advisory_unlock_all()')
      await rename(backend, null)
      backend.locks = false
      backend.time = null
      free.set(key, [...(free.get(key) ?? []), backend])
      taken -= 1
    },
    tell(backend, now, text) {
      if (/advisory/.test(text)) backend.locks = true
      if (backend.status === 'I' && backend.time === now) return
      if (
        backend.status === 'E' ||
        (backend.status === 'T' && backend.time !== null) ||
        !TELLS_TIME.test(text)
      ) {
        if (/^\s*(?:begin|rollback)/i.test(text)) backend.time = null
        return
      }
      backend.time = now
      backend.ahead(`set sim.now = '${written(now)}'`)
    },
    async begin(backend, now) {
      const results = await backend.client.query(`begin; set local sim.now = '${written(now)}'`)
      backend.time = now
      backend.isLocal = true
      return (results as unknown as unknown[])[0]
    },
    async isBlocked(backend) {
      const processID = processIdOf(backend)
      const own = [...all].map(processIdOf)
      const rows = await watch(
        'select from unnest(pg_blocking_pids($1)) as blocker where blocker = any ($2::int[])',
        [processID, own],
      )
      return rows.length > 0
    },
    async cancel(backend) {
      await watch('select pg_cancel_backend($1)', [processIdOf(backend)])
    },
    async close() {
      for (const { client } of all) await client.end()
      await (await monitor)?.end()
    },
  }
}

function processIdOf({ client }: Backend): number {
  return (client as unknown as { processID: number }).processID
}

/** Workers find each other's sessions by their names. */
async function rename(backend: Backend, name: string | null): Promise<void> {
  if (backend.name === name) return
  backend.name = name
  await backend.client.query(`set application_name = '${name ?? 'simulation'}'`)
}

/** Half of the time of a statement is its round trip, and every fifth statement only set the time. */
function sendsAhead(client: pg.Client): (text: string) => void {
  const { connection } = client as unknown as { connection: Wired }
  const emit = connection.emit.bind(connection)
  let unanswered = 0
  connection.emit = (name, ...rest) => {
    if (unanswered === 0 || (name !== 'commandComplete' && name !== 'readyForQuery'))
      return emit(name, ...rest)
    if (name === 'readyForQuery') unanswered -= 1
    return true
  }
  return (text) => {
    unanswered += 1
    connection.stream.cork()
    connection.query(text)
    process.nextTick(() => connection.stream.uncork())
  }
}

/** The part of pg's connection that its client uses. */
type Wired = EventEmitter & { readonly stream: Writable; query(text: string): void }

function written(now: number): string {
  const seconds = new Date(Math.floor(now / 1000)).toISOString().slice(0, 19)
  return `${seconds}.${String(now % 1_000_000).padStart(6, '0')}Z`
}

/** In a migrated database: a clock of its own instead of Postgres's, in statements and in defaults of columns. */
export async function setClock(client: pg.Client): Promise<void> {
  await client.query(`
    create schema sim;
    create function sim.now() returns timestamptz language sql stable
      as $$ select pg_catalog.current_setting('sim.now')::timestamptz $$;
    create function sim.clock_timestamp() returns timestamptz language sql stable
      as $$ select pg_catalog.current_setting('sim.now')::timestamptz $$;
    do $$
    declare found record;
    begin
      for found in
        select attrelid::regclass as place, attname from pg_attrdef
        join pg_attribute on (attrelid, attnum) = (adrelid, adnum)
        join pg_class on pg_class.oid = attrelid
        where pg_get_expr(adbin, adrelid) = 'now()' and not relispartition
      loop
        execute format('alter table %s alter column %I set default sim.now()', found.place, found.attname);
      end loop;
    end $$`)
}

/** Statistics of tables only when a session wants them, because an erasure refreshes the statistics that are there. */
export async function stopAutovacuum(client: pg.Client): Promise<void> {
  await client.query(`
    do $$
    declare found record;
    begin
      for found in
        select oid::regclass as place from pg_class
        where relkind = 'r' and relnamespace::regnamespace::text like 'intake%'
      loop
        execute format('alter table %s set (autovacuum_enabled = off)', found.place);
      end loop;
    end $$`)
}
