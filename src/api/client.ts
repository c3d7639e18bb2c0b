/**
 * The service's API as one team sees it: authentication, the shared request rate, retries and errors.
 *
 * Invariant: one client has one team and one request budget, for any number of streams; clients with the same limiter
 * share a budget. Every failure is an `IntakeError` with a verdict, except an abort, which throws the signal's reason.
 */
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { RateLimit } from './budget/limit-model.ts'
import { type Limiter, openLimiter } from './budget/limiter.ts'
import { type Answer, type Meter, outcomeOf, type RequestOptions, type StreamOptions } from './http/answer.ts'
import { openAttempts } from './http/attempts.ts'
import type { Failure } from './http/failures.ts'
import { endKnownBy, type Streamed, unpackedStream } from './http/read-stream.ts'
import {
  ACCEPTED_ENCODINGS,
  DEFAULT_TIMEOUTS,
  isTooLarge,
  openWire,
  type Timeouts,
  type Wire,
} from './http/wire.ts'
import { type PagesOptions, type Scan, scanPages } from './paging/pages.ts'
import { type Endpoint, type Paths, pathsWith } from './paths.ts'

export interface ClientOptions {
  /** URL of the service; a path in it is the prefix of every request's path. */
  readonly baseUrl: string
  readonly apiKey: string
  readonly apiSecret: string
  /** `X-API-VERSION`; the empty string sends none. */
  readonly apiVersion: string
  /** Most requests in flight, of all streams together. */
  readonly concurrency: number
  /** Overrides of `DEFAULT_PATHS` and of the paths of `endpoints`. */
  readonly paths?: { readonly [name: string]: string }
  /** Paths beyond `DEFAULT_PATHS`: the lists and records of streams. */
  readonly endpoints?: readonly Endpoint[]
  /** Overrides of `DEFAULT_BODY_KEYS`, the body keys that the specification does not show. */
  readonly bodyKeys?: { readonly [name: string]: string }
  /** `page_size` of the first request of a list; not sent if undefined. */
  readonly pageSize?: number
  readonly clock: Clock
  /** From 0 up to 1. */
  readonly random: () => number
  readonly logger: Logger
  /** Aborts all requests of the client. */
  readonly signal?: AbortSignal
  readonly timeouts?: Partial<Timeouts>
  /** Largest accepted body, in bytes, compressed or not. */
  readonly maxBytes?: number
  /** For the `user-agent` header. */
  readonly version?: string
  /** Milliseconds without an accepted request after which a call gives up; 15 minutes by default. A `limiter` has its own. */
  readonly giveUpAfterMs?: number
  /** Permitted requests of the team, of this client alone; learned from answers if undefined. A `limiter` has its own. */
  readonly rateLimit?: RateLimit
  /** A request budget shared by several clients of one team; by default the client has its own. */
  readonly limiter?: Limiter
  /** The network, which the client closes; HTTP to the origin of `baseUrl` by default. */
  readonly wire?: Wire
}

export interface Client {
  readonly paths: Paths
  /** The path to request for an endpoint: its own, or the team's. */
  pathOf(endpoint: Endpoint): string
  readonly bodyKeys: { readonly [name: string]: string }
  /** The requested version; empty if none is sent. */
  readonly apiVersion: string
  readonly pageSize: number | undefined
  readonly concurrency: number
  readonly totals: Readonly<Meter>
  /** The latest `X-Service-Environment` of the service, or null. */
  readonly environment: string | null
  /** Permitted requests per second, as configured or learned, or null while no limit is known. */
  readonly permittedRate: number | null
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>
  get(path: string, options?: RequestOptions): Promise<Answer>
  /**
   * As `request`, but returns the uncompressed body as a stream. Until the stream is read to its end or destroyed it
   * counts towards `concurrency`. A body that breaks off is not requested again.
   */
  stream(method: string, path: string, options?: StreamOptions): Promise<Streamed>
  /** Reads a whole list, page by page: see `scanPages`. */
  pages(path: string, options: PagesOptions): Scan
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export type { Answer, Meter, RequestOptions, StreamOptions } from './http/answer.ts'
export type { Streamed } from './http/read-stream.ts'

const MAX_BYTES = 256 * 1024 * 1024
const MAX_STREAM_BYTES = 16 * 1024 * 1024 * 1024

/**
 * Opens a client of one team, with its credentials (specification, section 5), request budget and retries (sections 7 and
 * 8). Sends nothing before the first call. Throws `TypeError` if `baseUrl` is not a URL. Calls throw `ApiError`, or the
 * reason of their signal.
 */
export function openClient(options: ClientOptions): Client {
  const { clock, random, logger, concurrency } = options
  const base = new URL(options.baseUrl)
  const closed = new AbortController()
  const { giveUpAfterMs, rateLimit } = options
  const limiter = options.limiter ?? openLimiter({ concurrency, clock, logger, giveUpAfterMs, rateLimit })
  const chosen = { ...DEFAULT_TIMEOUTS, ...options.timeouts }
  // One unanswered request must not outlast the time after which the team gives up.
  const timeouts = { ...chosen, headers: Math.min(chosen.headers, limiter.giveUpAfterMs) }
  const wire = options.wire ?? openWire(base.origin, concurrency, timeouts, options.maxBytes ?? MAX_BYTES)
  const attempts = openAttempts({
    limiter,
    clock,
    random,
    logger,
    address: base.port === '' ? `${base.hostname}:${base.protocol === 'http:' ? 80 : 443}` : base.host,
    prefix: base.pathname.replace(/\/+$/, ''),
    standing: {
      'x-api-key': options.apiKey,
      'x-api-secret': options.apiSecret,
      ...(options.apiVersion === '' ? {} : { 'x-api-version': options.apiVersion }),
      'user-agent': `intake-sync/${options.version ?? '0'}`,
      'accept-encoding': ACCEPTED_ENCODINGS,
    },
    signals: options.signal === undefined ? [closed.signal] : [options.signal, closed.signal],
  })

  function request(method: string, template: string, call: RequestOptions = {}): Promise<Answer> {
    return attempts.make(method, template, call, {
      accept: call.as === 'bytes' ? '*/*' : 'application/json',
      send: wire.send,
      judge: (received, { path, startedAt, receivedAt, serviceDate }) => {
        const outcome = outcomeOf(received, path, namesOne(template, call), call.as)
        if ('code' in outcome) return { failure: outcome }
        const { status, headers, body } = received
        return {
          result: { status, headers, ...outcome, startedAt, receivedAt, serviceDate, bytes: body.length },
        }
      },
    })
  }

  function stream(method: string, template: string, call: StreamOptions = {}): Promise<Streamed> {
    const one = namesOne(template, call)
    const verdict = one ? 'dead_letter' : 'stop'
    const tooLarge: Partial<Failure> = { verdict, hint: 'Give `maxBytes` a larger value.' }
    return attempts.make(method, template, call, {
      accept: '*/*',
      send: wire.open,
      judge: (received, { path, startedAt, receivedAt, serviceDate, permit, failed }) => {
        // A body that was read at once belongs to a failure.
        if ('body' in received) return { failure: outcomeOf(received, path, one, 'bytes') as Failure }
        const { status, headers } = received
        const body = unpackedStream(received, {
          maxBytes: call.maxBytes ?? MAX_STREAM_BYTES,
          failed: (thrown) => failed(thrown, isTooLarge(thrown) ? tooLarge : {}),
          closed: () => leave(),
        })
        const leave = permit.streaming()
        const endKnown = endKnownBy(headers)
        return { result: { status, headers, startedAt, receivedAt, serviceDate, stream: body, endKnown } }
      },
    })
  }

  async function close(): Promise<void> {
    closed.abort(new Error('the client is closed'))
    await wire.close()
  }

  const paths: { readonly [name: string]: string } & Paths = pathsWith(options.paths, options.endpoints)
  const client: Client = {
    paths,
    pathOf: ({ name, path }) => paths[name] ?? path,
    bodyKeys: options.bodyKeys ?? {},
    apiVersion: options.apiVersion,
    pageSize: options.pageSize,
    concurrency,
    totals: attempts.totals,
    get environment() {
      return attempts.environment
    },
    get permittedRate() {
      return limiter.permittedRate()
    },
    request,
    get: (path, call) => request('GET', path, call),
    stream,
    pages: (path, call) => scanPages(client, path, call),
    close,
    [Symbol.asyncDispose]: close,
  }
  return client
}

/** True if the path or the body names one resource by id, so that a refusal concerns that resource only. */
function namesOne(template: string, call: RequestOptions): boolean {
  return call.one ?? template.includes('{')
}
