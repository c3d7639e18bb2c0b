/**
 * Lets in who has a session with the role that a route requires, and refuses all others.
 *
 * Invariant: a link works once and for an hour; only hashes of links are kept. A session ends with the process, on logout
 * and after twelve hours. A route without a role requires `operator`. A request that changes something comes from a page
 * of the console: its origin and the token of its form are checked. A request for another host name is refused, so that
 * no foreign name can be pointed at a loopback address.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../core/clock.ts'
import { IntakeError } from '../core/errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Null only for routes of the role `nobody`. */
    visitor: Visitor | null
  }
  interface FastifyContextConfig {
    /** `nobody`: open to all who reach the port. */
    role?: Role | 'nobody'
  }
}

export interface AccessOptions {
  readonly sessions: Sessions
  /** The origin that browsers show. Null for any name of this machine's loopback address. */
  readonly origin: URL | null
  readonly cookie: string
}

/** A refusal with its HTTP status. Its message is shown. */
export class Refusal extends IntakeError {
  readonly statusCode: number

  constructor(statusCode: number, message: string, hint?: string) {
    super(message, { code: 'refused', verdict: 'stop', ...(hint === undefined ? {} : { hint }) })
    this.statusCode = statusCode
  }
}

export function guard(app: FastifyInstance, { sessions, origin, cookie }: AccessOptions): void {
  app.decorateRequest('visitor', null)

  app.addHook('onRequest', async (request, reply) => {
    if (!isOwnHost(request.hostname, origin)) {
      throw new Refusal(421, 'this console does not answer to that name', HOST_HINT)
    }
    request.visitor = visitorOf(request)
    const role = request.is404 ? 'viewer' : (request.routeOptions.config.role ?? 'operator')
    if (role === 'nobody') return
    if (request.visitor === null) return toLogin(request, reply)
    if (!mayAct(request.visitor, role)) throw new Refusal(403, `this needs the role ${role}`)
  })

  // After the body was read: the token is in it.
  app.addHook('preHandler', async (request) => {
    if (request.method === 'GET' || request.method === 'HEAD') return
    if (!isOwnOrigin(request)) throw new Refusal(403, 'the request does not come from this console')
    if (request.visitor === null) return
    const token = (request.body as { token?: unknown } | undefined)?.token
    if (!sessions.isFormToken(request.visitor, token)) {
      throw new Refusal(403, 'the form is from another session', 'load the page again')
    }
  })

  function visitorOf(request: FastifyRequest): Visitor | null {
    const signed = request.cookies[cookie]
    if (signed === undefined) return null
    const { valid, value } = request.unsignCookie(signed)
    return valid && value !== null ? sessions.find(value) : null
  }
}

const HOST_HINT = 'set INTAKE_CONSOLE_URL to the address that browsers show'

function toLogin({ method }: FastifyRequest, reply: FastifyReply) {
  if (method === 'GET') return reply.redirect('/login', 303)
  throw new Refusal(401, 'you are not logged in', 'open the link that the command printed')
}

function isOwnHost(name: string, origin: URL | null): boolean {
  if (origin !== null && name === origin.hostname) return true
  return /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(name)
}

/** Browsers name the origin of each form; `same-origin` is what they say of one of our own pages. */
function isOwnOrigin({ headers, host }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return false
  const { origin } = headers
  if (origin === undefined) return true
  return URL.canParse(origin) && new URL(origin).host === host
}

/* Links, sessions and the tokens of forms. */

export const ROLES = ['viewer', 'operator'] as const
export type Role = (typeof ROLES)[number]

export interface Visitor {
  /** Of the session; unlike its cookie, it is no secret. */
  readonly id: string
  readonly login: string
  readonly role: Role
}

export interface Sessions {
  /** Returns the secret of a new one-time link. */
  link(login: string, role: Role): string
  /** Uses a link up. Returns the secret of a new session, or null if the link is unknown, used or old. */
  enter(link: string): { readonly secret: string; readonly visitor: Visitor } | null
  /** Null if there is no such session. */
  find(secret: string): Visitor | null
  /** False after logout and at the end of the session. */
  isOpen(id: string): boolean
  leave(visitor: Visitor): void
  /** The token that a form of this visitor carries. */
  formToken(visitor: Visitor): string
  isFormToken(visitor: Visitor, token: unknown): boolean
}

const LINK_MICROS = 3_600_000_000
const SESSION_MICROS = 12 * LINK_MICROS
/** The oldest go first. */
const MAX_KEPT = 1_000

interface Timed {
  readonly visitor: Visitor
  readonly until: number
}

export function openSessions(clock: Clock): Sessions {
  const key = randomBytes(32)
  const links = new Map<string, Timed>()
  const sessions = new Map<string, Timed>()

  const add = (map: Map<string, Timed>, visitor: Visitor, micros: number): string => {
    const secret = randomBytes(32).toString('base64url')
    map.set(hashOf(secret), { visitor, until: clock.now() + micros })
    for (const [oldest] of map) {
      if (map.size <= MAX_KEPT) break
      map.delete(oldest)
    }
    return secret
  }
  const valid = (map: Map<string, Timed>, secret: string): Visitor | null => {
    const found = map.get(hashOf(secret))
    return found !== undefined && found.until > clock.now() ? found.visitor : null
  }
  const formToken = ({ id }: Visitor) => createHmac('sha256', key).update(`form ${id}`).digest('base64url')

  return {
    link: (login, role) => add(links, { id: '', login, role }, LINK_MICROS),
    enter(link) {
      const invited = valid(links, link)
      links.delete(hashOf(link))
      if (invited === null) return null
      const visitor = { ...invited, id: randomBytes(12).toString('base64url') }
      return { secret: add(sessions, visitor, SESSION_MICROS), visitor }
    },
    find: (secret) => valid(sessions, secret),
    isOpen: (id) =>
      [...sessions.values()].some(({ visitor, until }) => visitor.id === id && until > clock.now()),
    leave({ id }) {
      for (const [hash, { visitor }] of sessions) if (visitor.id === id) sessions.delete(hash)
    },
    formToken,
    isFormToken: (visitor, token) => typeof token === 'string' && isSame(token, formToken(visitor)),
  }
}

export function mayAct({ role }: Visitor, required: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(required)
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

function isSame(left: string, right: string): boolean {
  return timingSafeEqual(Buffer.from(hashOf(left)), Buffer.from(hashOf(right)))
}
