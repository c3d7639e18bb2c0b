/**
 * The service's API as one team sees it: authentication, the shared request rate, retries and errors.
 *
 * Invariant: one client is one team and one request budget, whatever number of streams use it; clients that are given
 * one gate share one budget. Every failure is an `IntakeError` with a verdict, but an abort, which throws the signal's
 * own reason.
 */
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { type Gate, openGate } from './budget/gate.ts'
import type { Answer, Meter, RequestOptions, StreamOptions } from './http/answer.ts'
import { openAttempts } from './http/attempts.ts'
import { ACCEPTED_ENCODINGS, isTooLarge } from './http/encodings.ts'
import type { Failure } from './http/failures.ts'
import { outcomeOf } from './http/outcome.ts'
import { endKnownBy, type Streamed, unpackedStream } from './http/read-stream.ts'
import { DEFAULT_TIMEOUTS, openWire, type Timeouts, type Wire } from './http/wire.ts'
import { type PagesOptions, type Scan, scanPages } from './paging/pages.ts'
import { type Paths, pathsWith } from './paths.ts'

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
  /** Milliseconds without one accepted request after which a call gives up; 15 minutes when left out. A `gate` has its own. */
  readonly giveUpAfterMs?: number
  /** The request budget, where several clients of one team share it; else the client has its own. */
  readonly gate?: Gate
  /** The network, which is the client's to close; HTTP to the origin of `baseUrl` when left out. */
  readonly wire?: Wire
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
  /**
   * As `request`, but the body comes as a stream, unpacked, which holds one of the requests in flight until it is read
   * or destroyed: with a `concurrency` of one nothing else is sent meanwhile. A body that breaks off is not asked for
   * again by itself.
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

export function openClient(options: ClientOptions): Client {
  const { clock, random, logger, concurrency } = options
  const base = new URL(options.baseUrl)
  const closed = new AbortController()
  const { giveUpAfterMs } = options
  const gate = options.gate ?? openGate({ concurrency, clock, logger, giveUpAfterMs })
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts }
  const wire = options.wire ?? openWire(base.origin, concurrency, timeouts, options.maxBytes ?? MAX_BYTES)
  const attempts = openAttempts({
    gate,
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
      judge: (came, { path, startedAt, receivedAt, serviceDate }) => {
        const outcome = outcomeOf(came, path, namesOne(template, call), call.as)
        if ('code' in outcome) return { failure: outcome }
        const { status, headers, body } = came
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
      judge: (came, { path, startedAt, receivedAt, serviceDate, pass, failed }) => {
        // A body that is there is that of a failure.
        if ('body' in came) return { failure: outcomeOf(came, path, one, 'bytes') as Failure }
        const { status, headers } = came
        const body = unpackedStream(came, {
          maxBytes: call.maxBytes ?? MAX_STREAM_BYTES,
          failed: (thrown) => failed(thrown, isTooLarge(thrown) ? tooLarge : {}),
          closed: () => leave(),
        })
        const leave = pass.streaming()
        const endKnown = endKnownBy(headers)
        return { result: { status, headers, startedAt, receivedAt, serviceDate, stream: body, endKnown } }
      },
    })
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
    totals: attempts.totals,
    get environment() {
      return attempts.environment
    },
    get permittedRate() {
      return gate.permittedRate()
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

/** True when a refusal speaks of one resource, which the path or the body names by id. */
function namesOne(template: string, call: RequestOptions): boolean {
  return call.one ?? template.includes('{')
}
