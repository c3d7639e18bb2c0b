/**
 * The HTTP side of the ingester: routes, time limits, and answers to requests that are not events.
 *
 * Invariant: a request reaches `receive` with its body unread, whatever its headers declare; every other request is
 * answered with `detail`. A connection that is slow or silent is closed.
 *
 * Plain `node:http`: a framework's router, request and reply cost a tenth of an event (docs/decisions/0005-libraries.md).
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { answerDetail, answerMalformed } from './answers.ts'
import type { Connections } from './connections.ts'
import type { IngestLimits } from './limits.ts'
import { openRoutes } from './routes.ts'

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
      if (!server.listening) return
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
