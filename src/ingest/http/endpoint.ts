/**
 * The HTTP side of the ingester: routes, time limits and answers.
 *
 * Invariant: a request reaches `receive` with its body unread, whatever its headers declare; every other request is
 * answered with `detail`. A connection that is slow or silent is closed. Answers are fixed texts, so none can contain
 * anything of an event (law 8).
 *
 * Plain `node:http`: a framework's router, request and reply cost a tenth of an event (docs/decisions/0005-libraries.md).
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Rejection } from '../watch.ts'
import type { Connections } from './connections.ts'
import type { IngestLimits } from './in-flight.ts'

export interface EndpointHandlers {
  /** Names of teams that events are expected for. */
  readonly teams: readonly string[]
  /** Answers an event; `team` is undefined where the path names none. */
  readonly receive: (request: IncomingMessage, response: ServerResponse, team: string | undefined) => void
  /** Called for an unknown path, and for a method that is not POST. */
  readonly elsewhere: () => void
  /** Called for bytes that are not an HTTP request, and for a request that was not finished in time. */
  readonly malformed: () => void
}

export interface Endpoint {
  /** Starts listening, and returns the URL. Rejects with the error of `net.Server.listen`. `port` 0: any free port. */
  listen(host: string, port: number): Promise<string>
  /** Closes connections without a request at once and the others after their answer. Accepts no more. */
  close(): Promise<void>
  /** Closes every connection now. */
  cut(): void
}

/** Connections that the kernel keeps until they are accepted, and beyond the limit until others have closed. */
const BACKLOG = 4_096

export function openEndpoint(
  limits: IngestLimits,
  connections: Pick<Connections, 'add'>,
  handlers: EndpointHandlers,
): Endpoint {
  const routeOf = openRoutes(handlers.teams)
  // Node counts a connection that has sent nothing yet as busy, and would wait for it when the server closes.
  const silent = new Set<Socket>()
  const exchanges = new WeakMap<Socket, Exchange>()
  let closing = false

  const answer = (request: IncomingMessage, response: ServerResponse) => {
    silent.delete(request.socket)
    const before = exchanges.get(request.socket)
    exchanges.set(request.socket, { request, response, before: before && unanswered(before) })
    if (closing) response.setHeader('connection', 'close')
    const route = routeOf(request.url ?? '')
    if (route !== null && request.method === 'POST') return handlers.receive(request, response, route.team)
    handlers.elsewhere()
    if (route === null) return answerDetail(response, 404, 'Not found.')
    response.setHeader('allow', 'POST')
    answerDetail(response, 405, 'Method not allowed.')
  }
  const server = createServer(
    {
      keepAliveTimeout: limits.idleMs,
      requestTimeout: limits.requestMs,
      headersTimeout: limits.headersMs,
      connectionsCheckingInterval: limits.checkMs,
      requireHostHeader: false,
    },
    answer,
  )
  server.on('connection', (socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
    connections.add(socket)
  })
  server.on('clientError', (error, stream) => {
    const socket = stream as Socket
    handlers.malformed()
    // The requests before the garbage are answered first: they may be valid events.
    const last = unanswered(exchanges.get(socket))
    if (last === undefined) return answerMalformed(error, socket)
    socket.pause()
    last.response.once('close', () => answerMalformed(error, socket))
  })
  server.on('checkContinue', (request, response) => {
    // A body that is too long is not requested (100 Continue). Whether its sender sends it anyway is unknown: the connection closes.
    if (Number(request.headers['content-length'] ?? 0) <= limits.body) response.writeContinue()
    else response.setHeader('connection', 'close')
    answer(request, response)
  })
  // Other expectations are ignored.
  server.on('checkExpectation', answer)

  return {
    async listen(host, port) {
      server.listen({ host, port, backlog: BACKLOG })
      await once(server, 'listening')
      return urlOf(server)
    },
    async close() {
      closing = true
      for (const socket of silent) socket.destroy()
      // Also closes the connections that are idle between two requests.
      server.close()
      await once(server, 'close')
    },
    cut: () => server.closeAllConnections(),
  }
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** One that was sent before on the same connection, and is not answered. */
  readonly before: Exchange | undefined
}

/** The last one whose request is complete and whose answer is not. */
function unanswered(last: Exchange | undefined): Exchange | undefined {
  if (last === undefined || last.response.writableFinished) return undefined
  return last.request.complete ? last : unanswered(last.before)
}

/** An address that other processes of this machine can use. */
function urlOf(server: Server): string {
  const { address, port } = server.address() as AddressInfo
  if (address === '0.0.0.0') return `http://127.0.0.1:${port}`
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`
}

interface Route {
  /** Undefined where the path names no team. A team that is named need not exist. */
  readonly team: string | undefined
}

/** A request target may be a whole URL (RFC 9112, section 3.2.2). */
const ORIGIN = /^https?:\/\/[^/?#]*/i

/**
 * Returns the route of a request target: `/webhooks` or `/webhooks/{team}`, with or without a slash at the end, and
 * percent-encoded or not, whatever the query. Null for any other path, and for one that cannot be decoded.
 */
export function openRoutes(teams: readonly string[]): (target: string) => Route | null {
  // The usual spellings are not parsed again for each event.
  const usual = new Map<string, Route>([['/webhooks', { team: undefined }]])
  for (const team of teams) usual.set(`/webhooks/${team}`, { team })
  return (target) => usual.get(target) ?? parse(target)
}

function parse(target: string): Route | null {
  const path = target.replace(ORIGIN, '').replace(/[?#].*$/s, '')
  const [start, first, team, ...more] = path
    .replace(/(?<=.)\/$/, '')
    .split('/')
    .map(decoded)
  if (start !== '' || first !== 'webhooks' || team === '' || team === null || more.length > 0) return null
  return { team }
}

function decoded(segment: string): string | null {
  try {
    return decodeURIComponent(segment)
  } catch {
    return null
  }
}

/** A rejection with an answer. */
export type Refusal = Exclude<Rejection, 'crowded'>

const JSON_TYPE = 'application/json; charset=utf-8'
/** Seconds, of `Retry-After`. */
const RETRY_SOON = '1'

const STORED = { stored: '{"status":"stored"}', duplicate: '{"status":"duplicate"}' } as const

const STORED_HEADERS = {
  stored: { 'content-type': JSON_TYPE, 'content-length': STORED.stored.length },
  duplicate: { 'content-type': JSON_TYPE, 'content-length': STORED.duplicate.length },
} as const

const REFUSED: Readonly<Record<Refusal, readonly [status: number, detail: string]>> = {
  signature: [400, 'Missing or wrong signature.'],
  unknown_team: [404, 'Not found.'],
  malformed: [400, 'Bad Request.'],
  slow: [408, 'The body came too slowly.'],
  too_large: [413, 'The body is too large.'],
  overload: [503, 'Too much at once. Try again soon.'],
  unavailable: [503, 'The event cannot be stored now. Try again soon.'],
  no_secret: [503, 'No signature secret is known yet. Try again soon.'],
}

export function answerStored(response: ServerResponse, outcome: 'stored' | 'duplicate'): void {
  response.writeHead(200, STORED_HEADERS[outcome])
  response.end(STORED[outcome])
}

export function answerRefused(response: ServerResponse, refusal: Refusal): void {
  const [status, detail] = REFUSED[refusal]
  if (status === 503) response.setHeader('retry-after', RETRY_SOON)
  if (refusal === 'malformed' || refusal === 'slow') response.setHeader('connection', 'close')
  answerDetail(response, status, detail)
}

function answerDetail(response: ServerResponse, status: number, detail: string): void {
  const body = JSON.stringify({ detail })
  response.writeHead(status, { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

/**
 * Answers bytes that are not an HTTP request, or a request that was not finished in time, and closes the connection.
 * Invariant: the answer contains nothing that was sent.
 */
const STATUS: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
}

function answerMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = STATUS[error.code ?? ''] ?? 400
  const body = JSON.stringify({ detail: `${STATUS_CODES[status]}.` })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}
