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
import { migrationNames } from '../../warehouse/migrations.ts'
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
      const detail = hint === undefined ? message : `${message}: ${hint}`
      return await reply.code(error instanceof UsageError ? 400 : 503).send({ detail })
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

/** How long an answer waits for the warehouse. */
const LIMIT_MS = 1_500
/** The warehouse counts as unreachable after this long without an answer: on a busy machine a query may take seconds. */
const SILENT_MS = 8_000
/** A single failed round of a worker is no reason: it tries again after a second. */
const LOOK_AGAIN_MS = 100

/** Null: the warehouse answers and has the schema. */
type WarehouseReason = string | null

/**
 * Returns the reasons why a part is not ready; none if it is. A part that is off in this process is not ready, but a
 * process that receives no webhooks is asked whether it could store them. A reason contains no data of a record.
 *
 * Invariant: resolves within two seconds, whatever the warehouse does. One query is under way at a time, and outlives the
 * answer that waited for it: otherwise a busy machine would begin it again and again. Until it ends, the result of the
 * previous one counts, for `SILENT_MS`, however long ago that was.
 */
export function openReadiness(
  bounded: BoundedQueries,
  parts: Readonly<Partial<Record<Part, Trouble>>>,
  clock: Clock,
): (part?: Part) => Promise<readonly string[]> {
  let names: readonly string[] | null = null
  let checking: Promise<WarehouseReason> | null = null
  let beganAt = 0
  /** Undefined before the first. */
  let last: WarehouseReason | undefined

  async function check(): Promise<WarehouseReason> {
    let reason: WarehouseReason = null
    beganAt = clock.now()
    try {
      names ??= await migrationNames()
      const known = names
      const limits = { purpose: 'readiness', milliseconds: SILENT_MS }
      await bounded.run(limits, (db) => requireSchema(db, known))
    } catch (error) {
      const { code, message } = warehouseError(error)
      reason = `${code === 'schema' ? 'schema' : 'database'}: ${message}`
    }
    last = reason
    checking = null
    return reason
  }

  async function ofWarehouse(): Promise<WarehouseReason> {
    const done = new AbortController()
    const late = clock.sleep(LIMIT_MS, done.signal).then(
      () => (last !== undefined && clock.now() - beganAt < SILENT_MS * 1000 ? last : SILENT),
      () => null,
    )
    checking ??= check()
    return await Promise.race([checking, late]).finally(() => done.abort())
  }

  async function ofPart(part: Part): Promise<string | null> {
    const trouble = parts[part]
    if (trouble === undefined) return part === 'ingest' ? null : 'off in this process'
    const until = clock.now() + LIMIT_MS * 1000
    while (part === 'work' && trouble() !== null && clock.now() < until) await clock.sleep(LOOK_AGAIN_MS)
    return trouble()
  }

  return async (part = 'ingest') => {
    const [warehouse, own] = await Promise.all([ofWarehouse(), ofPart(part)])
    return [warehouse, own === null ? null : `${part}: ${own}`].filter((reason) => reason !== null)
  }
}

const SILENT = 'database: the warehouse did not answer in time'

async function requireSchema(db: Kysely<Warehouse>, known: readonly string[]): Promise<void> {
  const { rows } = await sql<{ name: string }>`select name from intake_ops.migrations`.execute(db)
  const applied = new Set(rows.map(({ name }) => name))
  const behind = known.filter((name) => !applied.has(name)).length
  if (behind === 0) return
  throw new IntakeError(`behind this version by ${behind} migration(s)`, { code: 'schema', verdict: 'retry' })
}
