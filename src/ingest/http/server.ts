/**
 * The webhook ingester: accepts signed events, and answers 2xx only when they are committed (law 1).
 *
 * Invariant: every request is answered, whatever its bytes: 404, 413, 400, then 200 or 503 with Retry-After; nothing that
 * was acknowledged is lost, also when it closes; no log contains anything of a request.
 *
 *   POST ──► team ──► size ──► raw bytes ──► signature ──► inbox: committed ──► 200
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BlockList } from 'node:net'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { peerOf } from '../../core/peers.ts'
import { SIGNATURE_HEADER } from '../../core/signature.ts'
import { teamOfRequest } from '../../core/which-team.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { readEvent } from '../inbox/event.ts'
import { openInbox } from '../inbox/inbox.ts'
import type { IngestWatch, Rejection } from '../watch.ts'
import { openBodies } from './body.ts'
import { openConnections } from './connections.ts'
import { answerRefused, answerStored, openEndpoint, type Refusal } from './endpoint.ts'
import { type IngestLimits, LIMITS, openInFlight } from './in-flight.ts'
import { isSignature, judge, type SecretSource } from './secrets.ts'

export interface IngestTeam {
  readonly name: string
  readonly teamId: number
  readonly secrets: SecretSource
}

export interface IngesterOptions {
  /** The warehouse. */
  readonly url: string
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** POST /webhooks goes to the only team, or to the team named `default`. */
  readonly teams: readonly IngestTeam[]
  /** Proxies whose X-Forwarded-For names the peer; null for none. */
  readonly proxies?: BlockList | null
  readonly clock: Clock
  readonly logger: Logger
  readonly watch: IngestWatch
  /** Called after each commit that stored something, to wake a drain in the same process. */
  readonly onStored?: () => void
  readonly limits?: Partial<IngestLimits>
}

export interface Ingester extends AsyncDisposable {
  readonly url: string
  /** Why events cannot be stored at this moment; null when they can. */
  trouble(): string | null
  readonly inFlight: { readonly events: number; readonly bytes: number }
  /** Commits and answers the requests in flight, then stops. */
  close(): Promise<void>
}

/** Listens, also while the warehouse is unreachable: every event is then answered 503. */
export async function openIngester(options: IngesterOptions): Promise<Ingester> {
  const { url, host, port, teams, proxies = null, clock, logger, watch } = options
  const limits: IngestLimits = { ...LIMITS, ...options.limits }
  const inFlight = openInFlight(limits, teams.length, clock)
  const bodies = openBodies(limits, clock)
  const refusals = openRefusalLog(clock, logger)
  const names = teams.map(({ name }) => name)
  const byName = new Map([undefined, ...names].map((name) => [name, teamOfRequest(teams, name)]))
  await Promise.all(teams.map((team) => lookForSecrets(team, logger)))
  const inbox = await openInbox({
    url,
    clock,
    logger,
    watch,
    limits,
    onStored: options.onStored ?? (() => {}),
  })
  let closing: Promise<void> | null = null
  const flowing = new Set<string>()

  const refuse = (response: ServerResponse, reason: Refusal, team?: IngestTeam) => {
    watch.rejected(reason, team?.name)
    refusals.add(reason)
    answerRefused(response, reason)
  }
  /** Null on a connection that carried a signed event, unless it is a proxy's, which other peers share. */
  const strangerOf = ({ socket, headers }: IncomingMessage): string | null => {
    const isTrusted = connections.isTrusted(socket)
    if (isTrusted && proxies === null) return null
    const peer = peerOf(socket.remoteAddress, headers['x-forwarded-for'], proxies)
    return isTrusted && !peer.isForwarded ? null : peer.name
  }
  const receive = async (
    request: IncomingMessage,
    response: ServerResponse,
    team: IngestTeam | undefined,
  ) => {
    if (team === undefined) return refuse(response, 'unknown_team')
    if (Number(request.headers['content-length'] ?? 0) > limits.body)
      return refuse(response, 'too_large', team)
    const { socket, headers } = request
    const signature = headers[SIGNATURE_HEADER]
    const reservation = inFlight.enter(team.teamId, strangerOf(request))
    try {
      const body = await bodies.read(request, isSignature(signature) ? reservation : null)
      if (body === 'aborted') return
      if (typeof body === 'string') return refuse(response, body, team)
      const judging = judge(body, signature, team.secrets)
      // Whoever waits for a look-up of secrets holds the body meanwhile.
      if (typeof judging !== 'string' && !reservation.hold(body.length))
        return refuse(response, 'overload', team)
      const judgement = await judging
      if (judgement !== 'genuine') return refuse(response, judgement, team)
      connections.trust(socket)
      if (!reservation.accept(body.length)) return refuse(response, 'overload', team)
      const outcome = await inbox.store(readEvent(team.teamId, body)).catch(() => null)
      if (closing !== null) response.setHeader('connection', 'close')
      if (outcome === null) return refuse(response, 'unavailable', team)
      if (outcome === 'removed') return refuse(response, 'unknown_team', team)
      watch.stored(team.name, outcome === 'duplicate')
      if (!flowing.has(team.name)) logger.info({ team: team.name }, 'events flow: the first one is stored')
      flowing.add(team.name)
      answerStored(response, outcome)
    } finally {
      reservation.release()
    }
  }
  const note = (reason: Rejection) => {
    watch.rejected(reason)
    refusals.add(reason)
  }
  const connections = openConnections({ limits, proxies, onClosed: () => note('crowded') })
  const endpoint = openEndpoint(limits, connections, {
    teams: names,
    receive(request, response, name) {
      const team = byName.get(name)
      receive(request, response, team).catch((error) => {
        const { message, code } = warehouseError(error)
        logger.error({ code }, `an event could not be taken: ${message}`)
        if (!response.headersSent) refuse(response, 'unavailable', team)
      })
    },
    elsewhere: () => note('unknown_team'),
    malformed: () => note('malformed'),
  })
  const end = async () => {
    // Idle connections end at once; the others when their request is answered.
    const late = new AbortController()
    void clock.sleep(limits.closeMs, late.signal).then(
      () => endpoint.cut(),
      () => {},
    )
    await endpoint.close()
    late.abort()
    await inbox.close()
  }
  try {
    const address = await endpoint.listen(host, port)
    const close = () => {
      closing ??= end()
      return closing
    }
    return { url: address, trouble: inbox.trouble, inFlight, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await inbox.close()
    throw error
  }
}

/** A team may have no secret yet. Where the look-up fails, the first event that needs a secret repeats it. */
async function lookForSecrets({ name, secrets }: IngestTeam, logger: Logger): Promise<void> {
  const found = await secrets.refresh().catch(() => null)
  if (found?.length !== 0) return
  logger.warn({ team: name }, 'no signature secret is known: events are answered 503 until there is one')
}

const PAUSE_MICROSECONDS = 60_000_000

interface RefusalLog {
  add(reason: Rejection): void
}

/**
 * Logs how many requests were refused, by reason, at most once a minute: enough to notice a wrong secret, without a line
 * for each request of an attacker. A line contains counts and reasons only.
 */
function openRefusalLog(clock: Clock, logger: Logger): RefusalLog {
  let refused: Partial<Record<Rejection, number>> = {}
  let saidAt = Number.NEGATIVE_INFINITY
  return {
    add(reason) {
      refused[reason] = (refused[reason] ?? 0) + 1
      if (clock.now() - saidAt < PAUSE_MICROSECONDS) return
      saidAt = clock.now()
      logger.warn({ refused }, 'webhook requests were refused since the last such line')
      refused = {}
    },
  }
}
