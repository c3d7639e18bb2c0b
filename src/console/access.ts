/**
 * Lets in who has a session with the role that a route requires, and refuses all others.
 *
 * Invariant: a route without a role requires `operator`. A request that changes something comes from a page of the
 * console: its origin and the token of its form are checked. A request for another host name is refused, so that no
 * foreign name can be pointed at a loopback address. A header names a login only where a proxy is configured, and only in
 * a connection from its address.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { IntakeError } from '../core/errors.ts'
import { type LoginProxy, peerOf, ROLES, type Role } from '../core/peers.ts'
import { LOGIN, mayAct, type Sessions, type Visitor } from './sessions.ts'

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
  /** Whose headers name logins; null: nobody's. */
  readonly proxy: LoginProxy | null
  /** Audits a login that a proxy named. Throws if that is not possible. */
  readonly onEnter: (visitor: Visitor) => Promise<void>
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

export function guard(app: FastifyInstance, options: AccessOptions): void {
  const { sessions, origin, cookie, proxy } = options
  app.decorateRequest('visitor', null)

  app.addHook('onRequest', async (request, reply) => {
    if (!isOwnHost(request.hostname, origin)) {
      throw new Refusal(421, 'this console does not answer to that name', HOST_HINT)
    }
    request.visitor = (await namedByProxy(request)) ?? visitorOf(request)
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

  /** Null without a header of logins. Throws for one from anybody but the proxy, and for a login without a role. */
  async function namedByProxy({ headers, socket }: FastifyRequest): Promise<Visitor | null> {
    const login = proxy === null ? undefined : headers[proxy.loginHeader]
    if (proxy === null || login === undefined) return null
    if (!peerOf(socket.remoteAddress, undefined, proxy.addresses).isForwarded)
      throw new Refusal(403, 'the header of logins comes from an address that is no configured proxy')
    if (typeof login !== 'string' || !LOGIN.test(login)) throw new Refusal(403, 'the proxy names no login')
    const groups = proxy.groupsHeader === null ? '' : String(headers[proxy.groupsHeader] ?? '')
    const role = roleOf(
      proxy,
      login,
      groups.split(',').map((group) => group.trim()),
    )
    if (role === null)
      throw new Refusal(403, 'this login has no role in the console', 'see INTAKE_CONSOLE_ROLES')
    const { visitor, isNew } = sessions.admit(login, role)
    if (isNew) {
      try {
        await options.onEnter(visitor)
      } catch (error) {
        sessions.leave(visitor)
        throw error
      }
    }
    return visitor
  }

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

/** The highest of the roles of the login and its groups; that of all others if none has one. */
function roleOf(
  { roles: { logins, groups, others } }: LoginProxy,
  login: string,
  names: readonly string[],
): Role | null {
  const given = [logins.get(login), ...names.map((name) => groups.get(name))]
  return ROLES.findLast((role) => given.includes(role)) ?? others
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
