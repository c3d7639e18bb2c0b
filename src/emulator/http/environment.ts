/**
 * One environment of the service at one address.
 *
 * Invariant: every answer, errors included, carries `X-Service-Environment`, a Date of the service's clock and, when
 * it is an error, a body of `detail` alone; order of checks: path, credentials, method, rate limit, faults, handler.
 */
import { STATUS_CODES } from 'node:http'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Clock, ServiceClock } from '../clock.ts'
import { type FaultRule, type FiredFaults, fire } from '../faults/fired.ts'
import { damage, interrupt, sendFaulty } from '../faults/strike.ts'
import type { Shape } from '../shapes/shape.ts'
import { type Answer, failure } from './answer.ts'
import type { Call, Route } from './call.ts'
import { type Rendered, render } from './render.ts'
import type { RequestLog } from './request-log.ts'
import { authenticate, type Team } from './teams.ts'
import type { RateLimit } from './throttle.ts'

/** What may be changed while the emulator runs; both environments share it. */
export interface Settings {
  readonly seed: string
  readonly shape: Shape
  readonly defaultPageSize: number
  rateLimit: RateLimit | null
  faults: readonly FaultRule[]
  /** Faults that strike the next requests, one each, before any rule is asked. */
  readonly next: { readonly path: string; readonly rule: FaultRule }[]
  /** `/v2` requests so far: what makes faults the same in every run. */
  requests: number
}

export interface Environment {
  readonly name: string
  readonly app: FastifyInstance
  /** Where faults send callers; set when the other environment listens. */
  elsewhere: string
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'] as const
const BODY_LIMIT = 32 * 1024 * 1024
const NO_FAULTS: FiredFaults = new Map()

export function openEnvironment(
  name: string,
  teams: readonly Team[],
  routes: readonly Route[],
  settings: Settings,
  log: RequestLog,
  clock: Clock,
  serviceClock: ServiceClock,
): Environment {
  const app = Fastify({ bodyLimit: BODY_LIMIT, exposeHeadRoutes: false, forceCloseConnections: true })
  const environment: Environment = { name, app, elsewhere: 'http://127.0.0.1:9' }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('X-Service-Environment', name)
    reply.header('Date', new Date(serviceClock.now() / 1000).toUTCString())
    done()
  })
  const plain = (reply: FastifyReply, answer: Answer) => send(reply, render(answer, settings.shape))
  app.setNotFoundHandler((request, reply) => {
    note(request, null)
    return plain(reply, failure(404, 'Not found.'))
  })
  app.setErrorHandler((error: { statusCode?: number }, _request, reply) => {
    const status = error.statusCode ?? 500
    const detail = status === 400 ? 'Validation error.' : `${STATUS_CODES[status] ?? 'Error'}.`
    return plain(reply, failure(status, detail))
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

  async function serve(route: Route, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const team = authenticate(teams, request.headers)
    const known = 'apiKey' in team ? team : null
    const noted = note(request, known?.name ?? null)
    const answer = (given: Answer) => {
      const rendered = render(given, settings.shape)
      noted.status = rendered.status
      return send(reply, rendered)
    }
    if (known === null) return answer(team as Exclude<typeof team, Team>)
    const handler = Object.hasOwn(route.methods, request.method)
      ? route.methods[request.method as keyof Route['methods']]
      : undefined
    if (handler === undefined) {
      const allow = Object.keys(route.methods).join(', ')
      return answer({ ...failure(405, `Method "${request.method}" not allowed.`), headers: { allow } })
    }
    const wait = settings.rateLimit === null ? 0 : known.window.admit(settings.rateLimit, clock.now())
    if (wait > 0) {
      log.throttled(known.name)
      const seconds = String(Math.ceil(wait / 1_000_000))
      const detail = `Request was throttled. Expected available in ${seconds} seconds.`
      return answer({ ...failure(429, detail), headers: { 'retry-after': seconds } })
    }
    const [path = '', query = ''] = request.url.split('?', 2)
    const faults = draw(path)
    if (faults.has('slow')) await clock.sleep(Number(faults.get('slow') ?? 1000))
    const interruption = interrupt(faults, request.url, environment.elsewhere)
    if (interruption?.type === 'answer') {
      noted.status = interruption.rendered.status
      return send(reply, interruption.rendered)
    }
    if (interruption !== undefined) {
      reply.hijack()
      if (interruption.type === 'reset') request.raw.socket.resetAndDestroy()
      return reply
    }
    const call: Call = {
      world: known.world,
      method: request.method,
      origin: `http://${request.headers.host ?? '127.0.0.1'}`,
      elsewhere: environment.elsewhere,
      path,
      query: new URLSearchParams(query),
      params: request.params as Record<string, string>,
      headers: request.headers,
      body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
      version: String(request.headers['x-api-version'] ?? ''),
      defaultPageSize: settings.defaultPageSize,
      shape: settings.shape,
      faults,
    }
    const given = await handler(call)
    if (faults.size === 0) return answer(given)
    const rendered = render(given, settings.shape)
    const body = damage(faults, rendered.body)
    if (!faults.has('truncate') && !faults.has('drip')) {
      noted.status = rendered.status
      return send(reply, { ...rendered, body })
    }
    reply.hijack()
    const headers = { ...(reply.getHeaders() as Record<string, string>), ...rendered.headers }
    await sendFaulty(reply.raw, faults, { status: rendered.status, headers }, body, clock)
    return reply
  }

  function draw(path: string): FiredFaults {
    settings.requests += 1
    const planned = settings.next.findIndex((one) => path.startsWith(one.path))
    if (planned >= 0) {
      const [{ rule }] = settings.next.splice(planned, 1) as [Settings['next'][number]]
      return new Map([[rule.name, rule.argument]])
    }
    return settings.faults.length === 0
      ? NO_FAULTS
      : fire(settings.faults, settings.seed, settings.requests, path)
  }

  for (const route of routes) {
    const slash = settings.shape.has('trailing-slash')
    const url = slash ? `${route.path}/` : route.path
    app.route({ method: [...METHODS], url, handler: (request, reply) => serve(route, request, reply) })
    if (!slash) continue
    app.route({
      method: [...METHODS],
      url: route.path,
      handler: (request, reply) => {
        const [path, query] = request.url.split('?', 2)
        note(request, null).status = 301
        return reply
          .code(301)
          .header('location', `${path}/${query === undefined ? '' : `?${query}`}`)
          .send('')
      },
    })
  }
  return environment
}

function send(
  reply: FastifyReply,
  { status, headers, body }: Omit<Rendered, 'body'> & { body: string | Buffer },
) {
  return reply.code(status).headers(headers).send(body)
}
