/**
 * The admin address: health, readiness, metrics. For the machines that watch this process; it takes no input.
 *
 * Invariant: /healthz waits for nothing; the others answer within two seconds, also when the warehouse hangs. No
 * answer holds a value of a record, a secret or a connection string.
 */
import fastify from 'fastify'
import type { Registry } from 'prom-client'
import { UsageError } from '../../core/errors.ts'

export interface AdminOptions {
  readonly host: string
  /** 0 takes any. */
  readonly port: number
  /** Why the process is not ready; empty when it is. */
  readonly reasons: () => Promise<readonly string[]>
  /** Brings the gauges up to date. */
  readonly refresh: () => Promise<void>
  readonly registry: Registry
}

export interface Admin extends AsyncDisposable {
  readonly url: string
  close(): Promise<void>
}

export async function openAdmin(options: AdminOptions): Promise<Admin> {
  const { host, port, registry } = options
  const app = fastify({ logger: false, forceCloseConnections: true, requestTimeout: 10_000, bodyLimit: 1024 })
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    const reasons = await options.reasons()
    return reply.code(reasons.length === 0 ? 200 : 503).send({ ready: reasons.length === 0, reasons })
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
    throw cannotListen(error, 'INTAKE_ADMIN_HOST', 'INTAKE_ADMIN_PORT', port)
  }
}

/** A port that is taken or not ours to take, or a host that is not of this machine. */
export function cannotListen(error: unknown, host: string, port: string, number: number): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new UsageError(`port ${number} is in use`, `set ${port} to another, or 0 for any`, port)
  }
  if (code === 'EACCES') return new UsageError(`port ${number} may not be opened`, `set ${port}`, port)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new UsageError(`${host} is no address of this machine`, `set ${host} to one, or 0.0.0.0`, host)
  }
  return error
}
