/**
 * One request, from its credentials to its answer.
 *
 * Invariant: the order of checks is path, credentials, method, rate limit, faults, handler. A rejected request reaches
 * no handler; faults neither apply to a request over the rate limit nor count it.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { type FiredFaults, fire } from '../faults.ts'
import type { Settings } from '../options.ts'
import { type Answer, type Failure, failure } from './answer.ts'
import type { Call, Handler, Route } from './call.ts'
import { authenticate, type Team } from './call.ts'
import { render, send, whole } from './render.ts'
import { damage, interrupt, isDamaging, sendFaulty } from './strike.ts'

/** One environment, with everything that its requests need. */
export interface Environment {
  readonly name: string
  readonly app: FastifyInstance
  readonly teams: readonly Team[]
  readonly settings: Settings
  readonly clock: Clock
  readonly log: RequestLog
  /** Adds a request to the log. */
  note(request: FastifyRequest, team: string | null): RequestRecord
  /** Another origin, for faults that redirect callers; set when the other environment listens. */
  elsewhere: string
}

export async function exchange(
  environment: Environment,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { settings, clock } = environment
  const who = authenticate(environment.teams, request.headers)
  const team = 'apiKey' in who ? who : undefined
  const noted = environment.note(request, team?.name ?? null)
  const answer = (given: Answer) => {
    const rendered = render(given, settings.shape, request.method)
    noted.status = rendered.status
    return send(reply, rendered)
  }
  const handler = 'apiKey' in who ? admit(environment, route, request, who) : who
  if (team === undefined || typeof handler !== 'function') return answer(handler as Failure)

  const { path, query } = partsOf(request.url)
  const faults = draw(settings, path)
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
  let given: Answer
  try {
    given = await handler(callOf(environment, team, request, path, query, faults))
  } catch (error) {
    // So it is answered, in environment.ts.
    noted.status = 500
    throw error
  }
  if (!isDamaging(faults)) return answer(given)
  const rendered = render(given, settings.shape, request.method)
  const body = damage(faults, await whole(rendered.body))
  if (!faults.has('truncate') && !faults.has('drip')) {
    noted.status = rendered.status
    return send(reply, { ...rendered, body })
  }
  const headers = { ...(reply.getHeaders() as Record<string, string>), ...rendered.headers }
  reply.hijack()
  await sendFaulty(reply.raw, faults, { status: rendered.status, headers }, body, clock)
  if (!faults.has('truncate')) noted.status = rendered.status
  return reply
}

/** The handler of the request, or the reason for rejecting it. */
function admit(
  { settings, clock, log }: Environment,
  { methods }: Route,
  request: FastifyRequest,
  team: Team,
): Handler | Failure {
  const { id } = request.params as { id?: string }
  if (id === '') return failure(404, 'Not found.')
  const handler = Object.hasOwn(methods, request.method)
    ? methods[request.method as keyof typeof methods]
    : undefined
  if (handler === undefined) {
    const headers = { allow: Object.keys(methods).join(', ') }
    return { ...failure(405, `Method "${request.method}" not allowed.`), headers }
  }
  const wait = settings.rateLimit === null ? 0 : team.window.admit(settings.rateLimit, clock.now())
  if (wait === 0) return handler
  log.throttled(team.name)
  const seconds = String(Math.ceil(wait / 1_000_000))
  const detail = `Request was throttled. Expected available in ${seconds} seconds.`
  return { ...failure(429, detail), headers: { 'retry-after': seconds } }
}

const NO_FAULTS: FiredFaults = new Map()

/** The faults of this request. */
function draw(settings: Settings, path: string): FiredFaults {
  settings.requests += 1
  const planned = settings.next.findIndex((one) => path.startsWith(one.path))
  if (planned >= 0) {
    const { rule } = settings.next.splice(planned, 1)[0]!
    return new Map([[rule.name, rule.argument]])
  }
  if (settings.faults.length === 0) return NO_FAULTS
  const fired = fire(settings.faults, settings.seed, settings.requests, path)
  return settings.bursts.goOn(settings.faults, fired, path)
}

function callOf(
  { settings, elsewhere }: Environment,
  team: Team,
  request: FastifyRequest,
  path: string,
  query: string,
  faults: FiredFaults,
): Call {
  return {
    team,
    world: team.world,
    method: request.method,
    origin: `http://${request.headers.host ?? addressOf(request)}`,
    elsewhere,
    path,
    query: queryOf(query, settings.shape.has('filters-ignored')),
    params: request.params as Record<string, string>,
    headers: request.headers,
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    version: String(request.headers['x-api-version'] ?? ''),
    defaultPageSize: settings.defaultPageSize,
    shape: settings.shape,
    faults,
  }
}

/** Our address, for requests without a host (HTTP/1.0). */
function addressOf({ socket }: FastifyRequest): string {
  return `${socket.localAddress}:${socket.localPort}`
}

/** Parameters that select a page rather than filter rows. */
const PAGING = new Set(['page', 'page_size', 'limit', 'offset', 'cursor', 'type'])

function queryOf(text: string, filtersIgnored: boolean): URLSearchParams {
  const query = new URLSearchParams(text)
  if (filtersIgnored) for (const name of [...query.keys()]) if (!PAGING.has(name)) query.delete(name)
  return query
}

/** Path and query of a request target, which contains the origin if it comes from a proxy. */
export function partsOf(url: string): { readonly path: string; readonly query: string } {
  const target = url.replace(/^https?:\/\/[^/?]*/i, '')
  const mark = target.indexOf('?')
  return mark < 0
    ? { path: target, query: '' }
    : { path: target.slice(0, mark), query: target.slice(mark + 1) }
}

export interface RequestRecord {
  /** Microseconds since 1970, real time, when the request arrived. */
  readonly at: number
  readonly environment: string
  /** Team of the credentials; null if they were missing or wrong. */
  readonly team: string | null
  readonly method: string
  /** Path and query as received. */
  readonly url: string
  /** True when the request carried any credential header, right or wrong. */
  readonly withCredentials: boolean
  /** 0 until it is answered, and if a fault cut it off. */
  status: number
}

export interface Counters {
  readonly requests: number
  readonly throttled: number
}

const KEPT = 10_000

/** Counters count every request since the last reset; the log keeps only the newest `KEPT` of them. */
export class RequestLog {
  #records: RequestRecord[] = []
  readonly #counters = new Map<string, { requests: number; throttled: number }>()

  open(record: RequestRecord): RequestRecord {
    this.#records.push(record)
    if (this.#records.length >= KEPT * 2) this.#records = this.#records.slice(-KEPT)
    if (record.team !== null) this.#of(record.team).requests += 1
    return record
  }

  throttled(team: string): void {
    this.#of(team).throttled += 1
  }

  records(): readonly RequestRecord[] {
    return this.#records.slice(-KEPT)
  }

  counters(team: string): Counters {
    return { ...this.#of(team) }
  }

  reset(): void {
    this.#records = []
    this.#counters.clear()
  }

  #of(team: string): { requests: number; throttled: number } {
    let counters = this.#counters.get(team)
    if (counters === undefined) {
      counters = { requests: 0, throttled: 0 }
      this.#counters.set(team, counters)
    }
    return counters
  }
}
