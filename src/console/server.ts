/**
 * The console: pages for operators, rendered on the server.
 *
 *     request ─► host, session, role ─► page ─► remembered readings ─► warehouse
 *                                    └► form ─► audit ─► action
 *
 * Invariant: pages show ids, names of teams, streams, fields and questions, counts, times and hashes; never a value of a
 * record. Every action leaves one row in intake_ops.audit before it begins.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import cookie from '@fastify/cookie'
import formbody from '@fastify/formbody'
import rateLimit from '@fastify/rate-limit'
import view from '@fastify/view'
import { Eta } from 'eta'
import fastify from 'fastify'
import type { Logger } from 'pino'
import { UsageError } from '../core/errors.ts'
import type { Role } from '../core/peers.ts'
import { openBoundedQueries } from '../warehouse/bounded-queries.ts'
import { defectIn } from '../warehouse/defects.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { guard, Refusal } from './access.ts'
import { HEADERS, serveAssets } from './assets.ts'
import * as format from './format.ts'
import { serveLive } from './live.ts'
import { serveBreaking } from './pages/break.ts'
import { serveDeadLetters } from './pages/dead-letters.ts'
import { serveInbox } from './pages/inbox.ts'
import { serveInsights } from './pages/insights.ts'
import { serveQuestions } from './pages/questions.ts'
import { serveRecords } from './pages/records.ts'
import { serveRuns } from './pages/runs.ts'
import { servePages } from './pages/state.ts'
import { serveVerify } from './pages/verify.ts'
import { audit, serveVisits } from './pages/visits.ts'
import { openReadings } from './readings.ts'
import { openSessions, type Visitor } from './sessions.ts'
import type { ConsoleOptions, Page, Shared } from './shared.ts'

export interface Console extends AsyncDisposable {
  readonly url: string
  /** The port it listens on. */
  readonly port: number
  /** Makes a one-time link. */
  link(login: string, role: Role): string
  /** Every route with the role that it requires. */
  readonly routes: readonly { readonly method: string; readonly path: string; readonly role: string }[]
  close(): Promise<void>
}

/** The form that decides on as many questions as a page lists. */
const MAX_BODY = 262_144
/** Of one session, or of one address without a session. */
const REQUESTS_PER_MINUTE = 1_200

export async function openConsole(options: ConsoleOptions): Promise<Console> {
  const { host, port, publicUrl, url, clock, logger } = options
  const app = fastify({
    logger: false,
    forceCloseConnections: true,
    requestTimeout: 30_000,
    bodyLimit: MAX_BODY,
  })
  const stopping = new AbortController()
  const bounded = openBoundedQueries(url)
  const readings = openReadings({ ...options, bounded })
  const sessions = openSessions(clock)
  const origin = publicUrl === null ? null : new URL(publicUrl)
  const cookieName = origin?.protocol === 'https:' ? '__Host-intake-console' : `intake-console-${port}`
  const routes: { method: string; path: string; role: string }[] = []
  let address = ''

  const close = async () => {
    stopping.abort()
    await app.close()
    await bounded.close()
  }
  const link: Console['link'] = (login, role) =>
    `${origin?.origin ?? address}/login?link=${sessions.link(login, role)}`

  try {
    app.addHook('onRoute', ({ method, url: path, config }) => {
      routes.push({ method: String(method), path, role: config?.role ?? 'operator' })
    })
    app.addHook('onSend', async (_request, reply) => {
      for (const [name, value] of Object.entries(HEADERS))
        if (!reply.hasHeader(name)) reply.header(name, value)
    })
    await app.register(cookie, { secret: randomBytes(32).toString('base64') })
    await app.register(formbody, { bodyLimit: MAX_BODY })
    const onEnter = ({ login, role }: Visitor) =>
      audit({ readings }, { login }, { action: 'login', detail: { role, by: 'proxy' } })
    guard(app, { sessions, origin, cookie: cookieName, proxy: options.proxy, onEnter })
    await app.register(rateLimit, {
      ...{ max: options.requestsPerMinute ?? REQUESTS_PER_MINUTE, timeWindow: 60_000 },
      keyGenerator: ({ visitor, ip }) => visitor?.id ?? ip,
      errorResponseBuilder: () => new Refusal(429, 'too many requests', 'wait a minute'),
    })
    const eta = new Eta({ views: join(import.meta.dirname, 'views'), autoEscape: true, cache: true })
    await app.register(view, { engine: { eta }, templates: join(import.meta.dirname, 'views') })
    const assets = serveAssets(app)

    const rendered = openRendered()
    const show: Shared['show'] = async (
      request,
      reply,
      { view: name, title, status = 200, data = {}, waits = false, from },
    ) => {
      const own: Visitor | null = request.visitor
      const render = (visitor: Visitor | null, token: string) => {
        const page = {
          ...{ title, assets, visitor, token, waits, version: options.version },
          path: request.url.split('?')[0],
          canBreak: (options.breakages ?? []).length > 0,
          // The answer to a form cannot be loaded again.
          isLive: visitor !== null && request.method === 'GET' && status === 200,
        }
        return reply.viewAsync(name, { ...data, page, f: format })
      }
      reply.code(status).type('text/html; charset=utf-8')
      const token = own === null ? '' : sessions.formToken(own)
      if (own === null || from === undefined || waits) return await render(own, token)
      const login = eta.config.escapeFunction(own.login)
      const place = { key: `${own.role} ${request.url}`, login, token, from }
      return await rendered.text(place, (blankLogin, blank) => render({ ...own, login: blankLogin }, blank))
    }
    app.setNotFoundHandler((request, reply) => show(request, reply, NOT_FOUND))
    app.setErrorHandler((error, request, reply) => {
      const refused = refusalOf(error, logger)
      if (request.visitor === null && !request.url.startsWith('/login'))
        return reply.code(refused.statusCode).type('text/plain; charset=utf-8').send(`${refused.message}\n`)
      const { statusCode, message, hint = null } = refused
      return show(request, reply, {
        view: 'error',
        title: 'Error',
        status: statusCode,
        data: { message, hint },
      })
    })
    const shared: Shared = {
      options,
      readings,
      sessions,
      cookie: cookieName,
      signal: stopping.signal,
      link,
      show,
    }
    for (const serve of PARTS) serve(app, shared)
    address = await app.listen({ host, port })
    const listening = Number(new URL(address).port)
    return {
      url: origin?.origin ?? address,
      port: listening,
      link,
      routes,
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw listenError(error, port)
  }
}

/**
 * Texts of pages that all readers of a role share, as long as the readings that they show are the same. `login` and `token`
 * are HTML: they are put into text that was escaped before.
 */
function openRendered() {
  const known = new Map<string, { readonly from: readonly unknown[]; readonly text: Promise<string> }>()
  // The name and the token of a reader: random, so that nothing else on a page can be taken for it.
  const [LOGIN_PLACE, TOKEN_PLACE] = [randomBytes(12).toString('hex'), randomBytes(12).toString('hex')]
  return {
    async text(
      { key, login, token, from }: { key: string; login: string; token: string; from: readonly unknown[] },
      render: (login: string, token: string) => Promise<string>,
    ): Promise<string> {
      let found = known.get(key)
      if (found === undefined || found.from.some((each, at) => each !== from[at])) {
        if (known.size >= MAX_RENDERED) known.clear()
        found = { from, text: render(LOGIN_PLACE, TOKEN_PLACE) }
        known.set(key, found)
        found.text.catch(() => known.delete(key))
      }
      // Functions: in a text, `$&` would be replaced.
      return (await found.text).replaceAll(LOGIN_PLACE, () => login).replaceAll(TOKEN_PLACE, () => token)
    },
  }
}

const MAX_RENDERED = 50

const PARTS = [
  ...[serveVisits, servePages, serveRuns, serveLive, serveInbox, serveDeadLetters, serveRecords, serveVerify],
  ...[serveInsights, serveQuestions, serveBreaking],
]

const NOT_FOUND: Page = {
  view: 'error',
  title: 'Not found',
  status: 404,
  data: { message: 'there is no such page', hint: null },
}

/** An error of ours with its hint; any other without its message, which may quote data. */
function refusalOf(error: unknown, logger: Logger): Refusal {
  if (error instanceof Refusal) return error
  const { statusCode } = error as { statusCode?: number }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new Refusal(statusCode, 'the request cannot be read')
  const known = warehouseError(error)
  const defect = defectIn(error)
  if (defect === null) {
    logger.warn({ code: known.code }, 'a page of the console could not be shown')
    return new Refusal(503, known.message, known.hint)
  }
  logger.error(
    { kind: defect.kind, frames: defect.frames },
    'a defect of intake-sync: a page could not be shown',
  )
  return new Refusal(500, 'this page failed in its own code', 'report the line of the log about it')
}

function listenError(error: unknown, port: number): unknown {
  const { code } = error as NodeJS.ErrnoException
  const variable = 'INTAKE_CONSOLE_PORT'
  if (code === 'EADDRINUSE')
    return new UsageError(
      `port ${port} is in use`,
      `set --port or ${variable}, or 0 for any`,
      variable,
      'port_unusable',
    )
  if (code === 'EACCES')
    return new UsageError(`port ${port} may not be opened`, `set ${variable}`, variable, 'port_unusable')
  return error
}
