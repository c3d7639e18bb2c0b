/**
 * The HTTP side of the ingester: routes, time limits, and answers to requests that are not events.
 *
 * Invariant: a request reaches `receive` with its body unread, whatever its headers declare; every other request is
 * answered with `detail`. A connection that is slow, silent or beyond the limit is closed.
 *
 * Plain `node:http`: a framework's router, request and reply cost a tenth of an event (docs/decisions/0005-libraries.md).
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { answerDetail, answerMalformed } from './answers.ts'
import type { IngestLimits } from './limits.ts'
import { openRoutes } from './routes.ts'

export interface EndpointHandlers {
  /** Names of teams that events are expected for. */
  readonly teams: readonly string[]
  /** Answers an event; `team` is undefined where the path names none. */
  readonly receive: (request: IncomingMessage, response: ServerResponse, team: string | undefined) => void
  /** Called for an unknown path, and for a method that is not POST. */
  readonly elsewhere: () => void
  /** Called for a connection beyond the limit. */
  readonly crowded: () => void
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

export function openEndpoint(limits: IngestLimits, handlers: EndpointHandlers): Endpoint {
  const routeOf = openRoutes(handlers.teams)
  // Node counts a connection that has sent nothing yet as busy, and would wait for it when the server closes.
  const silent = new Set<Socket>()
  let closing = false

  const answer = (request: IncomingMessage, response: ServerResponse) => {
    silent.delete(request.socket)
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
  server.maxConnections = limits.connections
  server.on('drop', handlers.crowded)
  server.on('connection', (socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  server.on('clientError', (error, socket) => {
    handlers.malformed()
    answerMalformed(error, socket as Socket)
  })
  server.on('checkContinue', (request, response) => {
    // A body that is too long is not asked for. Whether its sender sends it anyway is unknown: the connection closes.
    if (Number(request.headers['content-length'] ?? 0) <= limits.body) response.writeContinue()
    else response.setHeader('connection', 'close')
    answer(request, response)
  })
  // Other expectations are ignored.
  server.on('checkExpectation', answer)

  return {
    async listen(host, port) {
      server.listen({ host, port })
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

/** An address that other processes of this machine can use. */
function urlOf(server: Server): string {
  const { address, port } = server.address() as AddressInfo
  if (address === '0.0.0.0') return `http://127.0.0.1:${port}`
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`
}
