/**
 * One environment of the service at one address.
 *
 * Invariant: every answer, errors included, carries `X-Service-Environment`, a Date of the service's clock and, when
 * it is an error, a body with only `detail` (unless the shape or a fault changes it).
 */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Clock, ServiceClock } from '../clock.ts'
import type { Settings } from '../options.ts'
import { type Answer, failure } from './answer.ts'
import type { Route, Team } from './call.ts'
import type { RequestLog } from './exchange.ts'
import { type Environment, exchange, partsOf } from './exchange.ts'
import { render, send } from './render.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'] as const
const BODY_LIMIT = 32 * 1024 * 1024

export function openEnvironment(
  name: string,
  teams: readonly Team[],
  routes: readonly Route[],
  settings: Settings,
  log: RequestLog,
  clock: Clock,
  serviceClock: ServiceClock,
): Environment {
  const date = () => new Date(serviceClock.now() / 1000).toUTCString()
  const mark = (reply: FastifyReply) => reply.header('X-Service-Environment', name).header('Date', date())
  const answer = (reply: FastifyReply, given: Answer) => send(reply, render(given, settings.shape))
  const app = Fastify({
    bodyLimit: BODY_LIMIT,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    // HTTP/1.0 clients may omit the host.
    http: { requireHostHeader: false },
    clientErrorHandler: (error, socket) => answerMalformed(name, date(), error, socket),
    // A path that is too long or cannot be decoded does not exist.
    frameworkErrors: (_error, request, reply) => {
      mark(reply)
      note(request, null).status = 404
      answer(reply, failure(404, 'Not found.'))
    },
  })
  const note = (request: FastifyRequest, team: string | null) =>
    log.open({
      at: clock.now(),
      environment: name,
      team,
      method: request.method,
      url: request.url,
      withCredentials: 'x-api-key' in request.headers || 'x-api-secret' in request.headers,
      status: 0,
    })
  const environment: Environment = {
    ...{ name, app, teams, settings, clock, log, note },
    elsewhere: 'http://127.0.0.1:9',
  }
  // Expectations other than 100-continue are ignored.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.addHook('onRequest', (_request, reply, done) => {
    mark(reply)
    done()
  })
  app.setNotFoundHandler((request, reply) => {
    note(request, null).status = 404
    return answer(reply, failure(404, 'Not found.'))
  })
  app.setErrorHandler((error: { statusCode?: number }, _request, reply) => {
    // An invalid content type is malformed input.
    const status = error.statusCode === 415 ? 400 : (error.statusCode ?? 500)
    return answer(
      reply,
      failure(status, status === 400 ? 'Validation error.' : `${STATUS_CODES[status] ?? 'Error'}.`),
    )
  })
  for (const route of routes) addRoute(environment, route)
  return environment
}

/** Answers a request that cannot be parsed, and so has no reply object, in the service's format. */
function answerMalformed(name: string, date: string, error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400
  const detail = status === 400 ? 'Validation error.' : `${STATUS_CODES[status]}.`
  const body = JSON.stringify({ detail })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `X-Service-Environment: ${name}`,
    `Date: ${date}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function addRoute(environment: Environment, route: Route): void {
  const { app, settings } = environment
  const slashed = settings.shape.has('trailing-slash')
  app.route({
    method: [...METHODS],
    url: slashed ? `${route.path}/` : route.path,
    handler: (request, reply) => exchange(environment, route, request, reply),
  })
  if (!slashed) return
  app.route({
    method: [...METHODS],
    url: route.path,
    handler: (request, reply) => {
      const { path, query } = partsOf(request.url)
      environment.note(request, null).status = 301
      return reply
        .code(301)
        .header('location', `${path}/${query === '' ? '' : `?${query}`}`)
        .send('')
    },
  })
}
