/**
 * Login with a one-time link, links for others, logout, and the list of audited actions.
 *
 * Invariant: opening a link changes nothing, so that the preview of a mail program does not use it up; its button does.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { ROLES, type Role } from '../../core/peers.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { Refusal } from '../access.ts'
import { LOGIN, mayAct, type Visitor } from '../sessions.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'

export interface Audited {
  readonly at: string
  readonly login: string
  readonly action: string
  readonly object: string
  /** Counts and options; never a value of a record. */
  readonly detail: Readonly<Record<string, string | number | boolean>>
}

/** Stores who begins what. Throws if that is not possible: then nothing is begun. */
export async function audit(
  { readings }: Pick<Shared, 'readings'>,
  { login }: Pick<Visitor, 'login'>,
  { action, object = '', detail = {} }: Partial<Audited> & Pick<Audited, 'action'>,
): Promise<void> {
  await readings.look(async (db) => {
    await sql`
      insert into intake_ops.audit (login, action, object, detail)
      values (${login}, ${action}, ${object}, ${JSON.stringify(detail)}::jsonb)`.execute(db)
  })
}

const MAX_ROWS = 200

async function readAudit(db: Kysely<Warehouse>): Promise<readonly Audited[]> {
  const { rows } = await sql<Audited>`
    select to_json(at) #>> '{}' as at, login, action, object, detail
    from intake_ops.audit order by audit_id desc limit ${MAX_ROWS}`.execute(db)
  return rows
}

/** In the audit, who has no session: no login has these characters. */
const NOBODY = { login: '(not logged in)' }

/** Logins are slow to guess, and links are too long to guess. */
const FEW = { rateLimit: { max: 30, timeWindow: 60_000 } }

export function serveVisits(app: FastifyInstance, shared: Shared): void {
  const { options, readings, sessions, cookie, show } = shared
  const open = { config: { role: 'nobody', ...FEW } } as const

  app.get('/login', open, async (request, reply) => {
    const { link = null } = request.query as { link?: string }
    return show(request, reply, { view: 'login', title: 'Log in', data: { link, printed: false } })
  })

  app.post('/login', open, async (request, reply) => {
    const entered = sessions.enter(textIn(request, 'link'))
    if (entered === null)
      throw new Refusal(403, 'this link was used, or is older than an hour', 'ask for a new one at /login')
    await audit(shared, entered.visitor, { action: 'login', detail: { role: entered.visitor.role } })
    reply.setCookie(cookie, entered.secret, {
      ...{ httpOnly: true, sameSite: 'strict', path: '/', signed: true },
      secure: cookie.startsWith('__Host-'),
    })
    return reply.redirect('/', 303)
  })

  // Whoever can see the output of the process may log in.
  app.post(
    '/login/link',
    { config: { role: 'nobody', rateLimit: { max: 3, timeWindow: 60_000 } } },
    async (request, reply) => {
      const { login, linkRole } = options
      await audit(shared, request.visitor ?? NOBODY, {
        ...{ action: 'link', object: login },
        detail: { role: linkRole, printed: true, from: request.ip },
      })
      options.onLink(shared.link(login, linkRole), linkRole)
      return show(request, reply, { view: 'login', title: 'Log in', data: { link: null, printed: true } })
    },
  )

  app.post('/logout', { config: { role: 'viewer' } }, async (request, reply) => {
    await audit(shared, request.visitor!, { action: 'logout' })
    sessions.leave(request.visitor!)
    return reply.clearCookie(cookie, { path: '/' }).redirect('/login', 303)
  })

  app.get('/audit', { config: { role: 'operator' } }, async (request, reply) => {
    const rows = await readings.ask('audit', () => readings.look(readAudit), PATIENCE_MS)
    const page = { view: 'audit', title: 'Audit', waits: rows === null }
    return show(request, reply, { ...page, data: { rows, made: null, roles: rolesOf(request) } })
  })

  app.post('/audit/link', { config: { role: 'operator' } }, async (request, reply) => {
    const login = textIn(request, 'login')
    const role = textIn(request, 'role') as Role
    if (!LOGIN.test(login) || !ROLES.includes(role))
      throw new Refusal(
        400,
        `a login has letters, digits, and . @ + - _; a role is one of ${ROLES.join(', ')}`,
      )
    if (!mayAct(request.visitor!, role)) throw new Refusal(403, 'nobody gives more than they have')
    await audit(shared, request.visitor!, { action: 'link', object: login, detail: { role } })
    const made = { login, role, link: shared.link(login, role) }
    const rows = await readings.look(readAudit)
    return show(request, reply, {
      view: 'audit',
      title: 'Audit',
      data: { rows, made, roles: rolesOf(request) },
    })
  })
}

/** The roles that a visitor may give to others. */
function rolesOf({ visitor }: FastifyRequest): readonly Role[] {
  return ROLES.filter((role) => visitor !== null && mayAct(visitor, role))
}

/** A field of a form; empty where it is missing. */
export function textIn({ body }: FastifyRequest, name: string): string {
  const value = (body as Readonly<Record<string, unknown>> | undefined)?.[name]
  return typeof value === 'string' ? value : ''
}
