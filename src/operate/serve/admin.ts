/**
 * The admin server: /healthz, /readyz and /metrics.
 *
 * Invariant: /healthz waits for nothing. The others respond within two seconds, even if the warehouse hangs. No response
 * contains data of a record, a secret or a connection string.
 */
import fastify from 'fastify'
import type { Registry } from 'prom-client'
import { UsageError } from '../../core/errors.ts'

export interface AdminOptions {
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
  /** Returns why the process is not ready; empty if it is. */
  readonly reasons: () => Promise<readonly string[]>
  /** Refreshes the gauges. */
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
    throw listenError(error, 'INTAKE_ADMIN_HOST', 'INTAKE_ADMIN_PORT', port)
  }
}

/** Maps an error of `listen` to a `UsageError`. `host` and `port` are names of environment variables. */
export function listenError(error: unknown, host: string, port: string, number: number): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new UsageError(`port ${number} is in use`, `set ${port} to another port, or to 0 for any`, port)
  }
  if (code === 'EACCES') return new UsageError(`port ${number} may not be opened`, `set ${port}`, port)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new UsageError(
      `${host} is not an address of this machine`,
      `set ${host} to one, or to 0.0.0.0`,
      host,
    )
  }
  return error
}
