/**
 * A real HTTP server with faults on request, and a client for it.
 *
 * Invariant: each test has its own server, which is closed with all its connections when the test ends. Its clock differs
 * from ours, so that a mix-up of the two shows.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Writable } from 'node:stream'
import pino from 'pino'
import { type Client, type ClientOptions, openClient } from '../../../src/api/client.ts'
import { systemClock } from '../../../src/core/clock.ts'

export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

export interface Service extends AsyncDisposable {
  readonly url: string
  readonly received: Received[]
}

export type Handler = (request: Received, response: http.ServerResponse, index: number) => void

/** Default difference of the clocks: more than any pause, less than a day. */
export const CLOCK_APART_MS = -3_607_000

/** `clockApartMs` is added to our time in `Date`. */
export async function startService(handler: Handler, clockApartMs = () => CLOCK_APART_MS): Promise<Service> {
  const received: Received[] = []
  const server = http.createServer((request, response) => {
    const pieces: Buffer[] = []
    const seen: Received = {
      method: request.method!,
      url: request.url!,
      headers: request.headers,
      get body() {
        return Buffer.concat(pieces)
      },
    }
    received.push(seen)
    response.setHeader('date', new Date(Date.now() + clockApartMs()).toUTCString())
    request
      .on('data', (piece: Buffer) => pieces.push(piece))
      .on('end', () => handler(seen, response, received.length - 1))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export function json(
  response: http.ServerResponse,
  body: unknown,
  status = 200,
  headers: http.OutgoingHttpHeaders = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

/** The answer for a page-numbered list of `total` records with ids `r0…`. */
export function numberedPage(url: string, total: number, size: number, origin = 'http://elsewhere.invalid') {
  const at = new URL(url, 'http://any.invalid')
  const page = Number(at.searchParams.get('page') ?? 1)
  const from = (page - 1) * size
  const results = Array.from({ length: Math.max(0, Math.min(size, total - from)) }, (_, i) => ({
    id: `r${from + i}`,
  }))
  at.searchParams.set('page', String(page + 1))
  const next = from + size < total ? `${origin}${at.pathname}?${at.searchParams}` : null
  return { count: total, next, previous: null, results }
}

export const SECRET = 'super-secret-value'
export const KEY = '00000000-feed-4000-8000-00000000beef'

export interface Heard extends AsyncDisposable {
  readonly client: Client
  /** Every logged line, at trace level. */
  readonly lines: string[]
}

/** A client with almost no pause between attempts. */
export function clientOf(baseUrl: string, options: Partial<ClientOptions> = {}): Heard {
  const lines: string[] = []
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(String(chunk))
      done()
    },
  })
  const client = openClient({
    baseUrl,
    apiKey: KEY,
    apiSecret: SECRET,
    apiVersion: 'v2.1',
    concurrency: 4,
    clock: systemClock,
    random: () => 0.001,
    logger: pino({ level: 'trace' }, sink),
    ...options,
  })
  return { client, lines, [Symbol.asyncDispose]: () => client.close() }
}

/** The error of `work`; fails when it succeeds. */
export async function errorOf(work: Promise<unknown>): Promise<Error> {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  throw new Error('no error was thrown')
}
