/**
 * The HTTP side of the ingester: routes, time limits, and answers to requests that are not events.
 *
 * Invariant: a request reaches `receive` with its body unread, whatever its headers declare; every other request is
 * answered with `detail`. A connection that is slow, silent or beyond the limit is closed.
 *
 * Paths in their usual spelling are looked up in a map: Fastify's router, request and reply would be a tenth of the cost
 * of an event. Every other request goes through Fastify, to the same `receive`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { answerDetail } from './answers.ts'
import type { IngestLimits } from './limits.ts'
import { answerMalformed } from './malformed.ts'

export interface EndpointHandlers {
  /** Names of teams that events are expected for. */
  readonly teams: readonly string[]
  /** Answers an event; `team` is undefined where the path names none. */
  readonly receive: (request: IncomingMessage, response: ServerResponse, team: string | undefined) => void
  /** Called for an unknown path. */
  readonly elsewhere: () => void
  /** Called for a connection beyond the limit. */
  readonly crowded: () => void
  /** Called for bytes that are not an HTTP request, and for a request that was not finished in time. */
  readonly malformed: () => void
}

const PATHS = ['/webhooks', '/webhooks/:team'] as const
const OURS = /^\/webhooks(?:\/[^/?]*)?\/?(?:\?|$)/
const LONGEST_TEAM = 500

export function openEndpoint(limits: IngestLimits, handlers: EndpointHandlers): FastifyInstance {
  const plain = new Map<string | undefined, string | undefined>([['/webhooks', undefined]])
  for (const team of handlers.teams) plain.set(`/webhooks/${team}`, team)
  // Node counts a connection that has sent nothing yet as busy, and would wait for it when the server closes.
  const silent = new Set<Socket>()
  const app = Fastify({
    exposeHeadRoutes: false,
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: LONGEST_TEAM },
    serverFactory: (throughFastify) =>
      createServer(
        {
          keepAliveTimeout: limits.idleMs,
          requestTimeout: limits.requestMs,
          headersTimeout: limits.headersMs,
          connectionsCheckingInterval: limits.checkMs,
          requireHostHeader: false,
        },
        (request, response) => {
          silent.delete(request.socket)
          if (request.method === 'POST' && plain.has(request.url)) {
            handlers.receive(request, response, plain.get(request.url))
          } else throughFastify(request, response)
        },
      ),
    clientErrorHandler(error, socket) {
      handlers.malformed()
      answerMalformed(error, socket)
    },
    // A path that cannot be decoded is a path that does not exist.
    frameworkErrors: (_error, request, reply) => answerElsewhere(request, reply),
  })
  app.server.maxConnections = limits.connections
  app.server.on('drop', handlers.crowded)

  const answerElsewhere = (request: FastifyRequest, reply: FastifyReply) => {
    handlers.elsewhere()
    reply.hijack()
    if (!OURS.test(request.url) || request.method === 'POST')
      return answerDetail(reply.raw, 404, 'Not found.')
    reply.raw.setHeader('allow', 'POST')
    answerDetail(reply.raw, 405, 'Method not allowed.')
  }
  app.server.on('connection', (socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  app.addHook('preClose', (done) => {
    for (const socket of silent) socket.destroy()
    done()
  })
  // Before Fastify parses the body by its Content-Type: the signature covers the raw bytes.
  app.addHook('onRequest', (request, reply) => {
    if (request.is404) return answerElsewhere(request, reply)
    reply.hijack()
    handlers.receive(request.raw, reply.raw, (request.params as { team?: string }).team)
  })
  for (const url of PATHS) app.post(url, answeredBefore)
  app.setErrorHandler((_error, _request, reply) => {
    reply.hijack()
    answerDetail(reply.raw, 500, 'Internal server error.')
  })

  const meet = (request: IncomingMessage, response: ServerResponse) => {
    // A body that is too long is not asked for. Whether its sender sends it anyway is unknown: the connection closes.
    if (Number(request.headers['content-length'] ?? 0) <= limits.body) response.writeContinue()
    else response.setHeader('connection', 'close')
    app.server.emit('request', request, response)
  }
  app.server.on('checkContinue', meet)
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  return app
}

function answeredBefore(): never {
  throw new Error('requests are answered before their handler')
}
