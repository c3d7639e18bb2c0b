/**
 * The admin server: /healthz, /readyz, /metrics and /wait.
 *
 * Invariant: /healthz waits for nothing; /wait for as long as requested. The others respond within two seconds,
 * even if the warehouse hangs. No response contains data of a record, a secret or a connection string.
 */
import fastify from 'fastify'
import { type Kysely, sql } from 'kysely'
import type { Registry } from 'prom-client'
import { z } from 'zod'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { parseInstant } from '../../core/time.ts'
import type { BoundedQueries } from '../../warehouse/bounded-queries.ts'
import { migrationFiles } from '../../warehouse/migrations.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readAsOf, streamNamed, type Waited, type Wanted, waitFor } from '../health/wait.ts'

export interface AdminOptions {
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
  /** Returns why a part is not ready; empty if it is. */
  readonly reasons: (part: Part) => Promise<readonly string[]>
  /** Resolves when the stream or record is as new as `since`, or when `timeout` seconds are over. */
  readonly wait: (query: WaitQuery, signal: AbortSignal) => Promise<Waited>
  /** Refreshes the gauges. */
  readonly refresh: () => Promise<void>
  readonly registry: Registry
}

/** `GET /wait` is for scripts on the machine; more of them is a mistake. */
const MAX_WAITING = 20
const WAIT_USAGE =
  'Use ?stream=patients&since=2026-01-05T02:11:09Z, with id, team and timeout (seconds, at most 300).'

const waitQuery = z.object({
  stream: z.string(),
  id: z.string().min(1).optional(),
  team: z.string().optional(),
  since: z
    .string()
    .refine((text) => parseInstant(text) !== null)
    .transform(parseInstant),
  timeout: z
    .string()
    .regex(/^\d{1,3}$/)
    .transform(Number)
    .pipe(z.number().max(300))
    .default(30),
})

export type WaitQuery = z.infer<typeof waitQuery>

/** `GET /wait`. A look that takes too long has found nothing. */
export function waitOver(bounded: BoundedQueries, clock: Clock) {
  return async (query: WaitQuery, signal: AbortSignal): Promise<Waited> => {
    const { stream, id = null, team, since, timeout } = query
    const wanted: Wanted = { stream: streamNamed(stream), id, team, since: since! }
    const look = () =>
      bounded
        .run({ purpose: 'wait', milliseconds: LIMIT_MS }, (db) => readAsOf(db, wanted))
        .catch((error: IntakeError) => {
          if (error.code === 'warehouse_slow') return null
          throw error
        })
    return await waitFor(wanted, look, { timeoutMs: timeout * 1000, clock, signal })
  }
}

export interface Admin extends AsyncDisposable {
  readonly url: string
  close(): Promise<void>
}

export async function openAdmin(options: AdminOptions): Promise<Admin> {
  const { host, port, registry } = options
  const app = fastify({ logger: false, forceCloseConnections: true, requestTimeout: 10_000, bodyLimit: 1024 })
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async ({ query }, reply) => {
    const { part = 'ingest' } = query as { readonly part?: unknown }
    const requested = PARTS.find((each) => each === part)
    if (requested === undefined)
      return reply.code(400).send({ detail: `part is one of ${PARTS.join(', ')}.` })
    const reasons = await options.reasons(requested)
    return reply.code(reasons.length === 0 ? 200 : 503).send({ ready: reasons.length === 0, reasons })
  })
  let waiting = 0
  app.get('/wait', async (request, reply) => {
    const requested = waitQuery.safeParse(request.query)
    if (!requested.success) return reply.code(400).send({ detail: WAIT_USAGE })
    if (waiting >= MAX_WAITING) return reply.code(503).send({ detail: 'Too many requests are waiting.' })
    waiting += 1
    const left = new AbortController()
    reply.raw.once('close', () => left.abort())
    try {
      const waited = await options.wait(requested.data, left.signal)
      return await reply.code(waited.reached ? 200 : 504).send(waited)
    } catch (error) {
      const { message, hint } = warehouseError(error)
      return await reply.code(error instanceof UsageError ? 400 : 503).send({ detail: `${message}: ${hint}` })
    } finally {
      waiting -= 1
    }
  })
  app.get('/metrics', async (_request, reply) => {
    await options.refresh()
    return reply.type(registry.contentType).send(await registry.metrics())
  })
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ detail: 'Not found.' }))
  app.setErrorHandler((_error, _request, reply) => reply.code(500).send({ detail: 'Internal error.' }))
  const close = () => app.close()
  try {
    const url = await app.listen({ host, port })
    return { url, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw listenError(error, 'INTAKE_ADMIN_HOST', 'INTAKE_ADMIN_PORT', port)
  }
}

/** Maps an error of `listen` to a `UsageError`. `host` and `port` are names of environment variables. */
export function listenError(error: unknown, host: string, port: string, number: number): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new UsageError(
      `port ${number} is in use`,
      `set ${port} to another port, or to 0 for any`,
      port,
      'port_unusable',
    )
  }
  if (code === 'EACCES')
    return new UsageError(`port ${number} may not be opened`, `set ${port}`, port, 'port_unusable')
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new UsageError(
      `${host} is not an address of this machine`,
      `set ${host} to one, or to 0.0.0.0`,
      host,
      'port_unusable',
    )
  }
  return error
}

/** What `/readyz?part=` may ask for; without it, whether events can be stored. */
export const PARTS = ['ingest', 'drain', 'schedule', 'work'] as const
export type Part = (typeof PARTS)[number]

/** Returns why a part does not work; null if it does. */
export type Trouble = () => string | null

const LIMIT_MS = 1_500

/**
 * The reasons why a part is not ready; none if it is. A part that is off in this process is not ready, but a process that
 * receives no webhooks is asked whether it could store them. A reason contains no data of a record. Resolves within two
 * seconds, whatever the warehouse does.
 */
export async function reasonsNotReady(
  bounded: BoundedQueries,
  parts: Readonly<Partial<Record<Part, Trouble>>>,
  part: Part = 'ingest',
): Promise<readonly string[]> {
  const trouble = parts[part]
  const why = trouble === undefined ? (part === 'ingest' ? null : 'off in this process') : trouble()
  const own = why === null ? [] : [`${part}: ${why}`]
  try {
    await bounded.run({ purpose: 'readiness', milliseconds: LIMIT_MS }, requireSchema)
    return own
  } catch (error) {
    const { code, message } = warehouseError(error)
    return [`${code === 'schema' ? 'schema' : 'database'}: ${message}`, ...own]
  }
}

async function requireSchema(db: Kysely<Warehouse>): Promise<void> {
  const known = Object.keys(await migrationFiles.getMigrations())
  const { rows } = await sql<{ name: string }>`select name from intake_ops.migrations`.execute(db)
  const applied = new Set(rows.map(({ name }) => name))
  const behind = known.filter((name) => !applied.has(name)).length
  if (behind === 0) return
  throw new IntakeError(`behind this version by ${behind} migration(s)`, { code: 'schema', verdict: 'retry' })
}
