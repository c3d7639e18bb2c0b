/**
 * The service's API as one team sees it: authentication, the shared request rate, retries and errors.
 *
 * Invariant: one client is one team and one request budget, whatever number of streams use it. Reads are repeated
 * when another attempt may help; a write is repeated only after 429, which says that nothing was done. Every failure
 * is an `IntakeError` with a verdict, but an abort, which throws the signal's own reason.
 */
import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { Answer, Meter, RequestOptions } from './answer.ts'
import { pauseBefore } from './backoff.ts'
import { ApiError } from './errors.ts'
import { type Failure, failureOfBody, failureOfFault } from './failures.ts'
import { dateOf, outcomeOf } from './outcome.ts'
import { type PagesOptions, type Scan, scanPages } from './pages.ts'
import { expandPath, type Paths, pathsWith } from './paths.ts'
import { queryText } from './query.ts'
import { openGate } from './rate/gate.ts'
import { retryAfterOf } from './retry-after.ts'
import { ACCEPTED_ENCODINGS, BodyFault, DEFAULT_TIMEOUTS, openWire, type Timeouts } from './wire.ts'

export interface ClientOptions {
  /** Where the service is; may hold a path, which then leads every request's path. */
  readonly baseUrl: string
  readonly apiKey: string
  readonly apiSecret: string
  /** `X-API-VERSION`; the empty string sends none. */
  readonly apiVersion: string
  /** Requests in flight, of all streams together. */
  readonly concurrency: number
  /** Own paths over `DEFAULT_PATHS`. */
  readonly paths?: { readonly [name: string]: string }
  /** Own names of body keys that the specification does not show; for the endpoints that write. */
  readonly bodyKeys?: { readonly [name: string]: string }
  /** `page_size` of the first request of a list; without it that request is bare. */
  readonly pageSize?: number
  readonly clock: Clock
  /** From 0 up to 1. */
  readonly random: () => number
  readonly logger: Logger
  /** Ends everything the client does. */
  readonly signal?: AbortSignal
  readonly timeouts?: Partial<Timeouts>
  /** Largest body accepted, in bytes, packed or not. */
  readonly maxBytes?: number
  /** For the `user-agent` header. */
  readonly version?: string
}

export interface Client {
  readonly paths: Paths
  readonly bodyKeys: { readonly [name: string]: string }
  /** The version asked for; empty when none is. */
  readonly apiVersion: string
  readonly pageSize: number | undefined
  readonly concurrency: number
  readonly totals: Readonly<Meter>
  /** What the service last called its environment (`X-Service-Environment`), or null while it has not. */
  readonly environment: string | null
  /** Requests per second that the client has found to be permitted, or null while no limit has shown. */
  readonly permittedRate: number | null
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>
  get(path: string, options?: RequestOptions): Promise<Answer>
  /** Reads a whole list, page by page: see `scanPages`. */
  pages(path: string, options: PagesOptions): Scan
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export type { Answer, Meter, RequestOptions } from './answer.ts'

const MAX_BYTES = 256 * 1024 * 1024

export function openClient(options: ClientOptions): Client {
  const { clock, random, logger, concurrency } = options
  const base = new URL(options.baseUrl)
  const prefix = base.pathname.replace(/\/+$/, '')
  const address = base.port === '' ? `${base.hostname}:${base.protocol === 'http:' ? 80 : 443}` : base.host
  const closed = new AbortController()
  const totals: Meter = { requests: 0, throttled: 0 }
  let environment: string | null = null
  const gate = openGate({ concurrency, clock, logger })
  const wire = openWire(
    base.origin,
    concurrency,
    { ...DEFAULT_TIMEOUTS, ...options.timeouts },
    options.maxBytes ?? MAX_BYTES,
  )
  const standing: { readonly [name: string]: string } = {
    'x-api-key': options.apiKey,
    'x-api-secret': options.apiSecret,
    ...(options.apiVersion === '' ? {} : { 'x-api-version': options.apiVersion }),
    'user-agent': `intake-sync/${options.version ?? '0'}`,
    'accept-encoding': ACCEPTED_ENCODINGS,
  }

  async function request(method: string, template: string, call: RequestOptions = {}): Promise<Answer> {
    const path = prefix + expandPath(template, call.params)
    const target = path + queryText(call.query)
    const label = call.label ?? template
    const read = call.read ?? (method === 'GET' || method === 'HEAD')
    const signals = [options.signal, call.signal, closed.signal].filter((signal) => signal !== undefined)
    // Every request that waits for its turn listens; many of them are no leak.
    setMaxListeners(0, ...signals)
    const { body, contentType } = encoded(call)
    const headers = {
      ...standing,
      accept: call.as === 'bytes' ? '*/*' : 'application/json',
      ...(contentType === null ? {} : { 'content-type': contentType }),
    }

    for (let tries = 1; ; tries++) {
      const pass = await gate.enter(signals, tries > 1)
      totals.requests += 1
      if (call.meter) call.meter.requests += 1
      const startedAt = clock.now()
      let failure: Failure
      let refusal: Answer | null = null
      let retryAfter: number | null = null
      try {
        const came = await wire.send({ method, target, headers, body }, signals)
        const receivedAt = clock.now()
        const serviceDate = dateOf(came.headers.date)
        environment = came.headers['x-service-environment'] ?? environment
        if (came.status === 429) {
          totals.throttled += 1
          if (call.meter) call.meter.throttled += 1
        }
        if (came.status === 429 || came.status === 503) {
          retryAfter = retryAfterOf(came.headers['retry-after'], came.body, serviceDate, receivedAt / 1000)
        }
        if (came.status === 429) pass.throttled(retryAfter)
        else pass.accepted()
        logger.debug(
          {
            method,
            path: label,
            status: came.status,
            attempt: tries,
            ms: (receivedAt - startedAt) / 1000,
          },
          'request',
        )
        const outcome = outcomeOf(came, path, call.one ?? template.includes('{'), call.as)
        const { body: content, ...rest } = came
        const answer = { ...rest, startedAt, receivedAt, serviceDate, bytes: content.length }
        if (!('code' in outcome)) return { ...answer, ...outcome }
        refusal = { ...answer, body: content, invalidUtf8: false }
        failure = outcome
      } catch (thrown) {
        pass.lost()
        for (const signal of signals) signal.throwIfAborted()
        failure = thrown instanceof BodyFault ? failureOfBody(thrown.fault) : failureOfFault(thrown, address)
        logger.debug({ method, path: label, code: failure.code, attempt: tries }, 'request failed')
      }
      const again = read || failure.again === 'throttled' ? failure.again : 'never'
      const pause = pauseBefore(again, tries, retryAfter, random)
      if (pause === null) {
        if (refusal !== null) call.onRefusal?.(refusal)
        throw new ApiError(method, label, failure, tries, read)
      }
      // After 429 the gate holds everybody back, this request among them.
      if (again !== 'throttled') await sleep(pause, signals)
    }
  }

  async function sleep(milliseconds: number, signals: readonly AbortSignal[]): Promise<void> {
    const abort = new AbortController()
    const stop = (event: Event) => abort.abort((event.target as AbortSignal).reason)
    for (const signal of signals) {
      signal.throwIfAborted()
      signal.addEventListener('abort', stop, { once: true })
    }
    try {
      await clock.sleep(milliseconds, abort.signal)
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', stop)
    }
  }

  async function close(): Promise<void> {
    closed.abort(new Error('the client is closed'))
    await wire.close()
  }

  const client: Client = {
    paths: pathsWith(options.paths),
    bodyKeys: options.bodyKeys ?? {},
    apiVersion: options.apiVersion,
    pageSize: options.pageSize,
    concurrency,
    totals,
    get environment() {
      return environment
    },
    get permittedRate() {
      return gate.permittedRate()
    },
    request,
    get: (path, call) => request('GET', path, call),
    pages: (path, call) => scanPages(client, path, call),
    close,
    [Symbol.asyncDispose]: close,
  }
  return client
}

function encoded(call: RequestOptions): { body: Uint8Array | string | null; contentType: string | null } {
  if (call.body === undefined) return { body: null, contentType: null }
  if (call.body instanceof Uint8Array)
    return { body: call.body, contentType: call.contentType ?? 'application/octet-stream' }
  return { body: JSON.stringify(call.body), contentType: call.contentType ?? 'application/json' }
}
