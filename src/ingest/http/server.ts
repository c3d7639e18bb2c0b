/**
 * The webhook ingester: accepts signed events, and answers 2xx only when they are committed (law 1).
 *
 * Invariant: every request is answered as CONTRACT says, whatever its bytes: 404, 413, 400, then 200 or 503 with
 * Retry-After; nothing that was acknowledged is lost, also when it closes; no log contains anything of a request.
 *
 *   POST ──► team ──► size ──► raw bytes ──► signature ──► inbox: committed ──► 200
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { SIGNATURE_HEADER } from '../../core/signature.ts'
import { teamOfRequest } from '../../core/which-team.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { readEvent } from '../inbox/event.ts'
import { openInbox } from '../inbox/inbox.ts'
import type { IngestWatch, Rejection } from '../watch.ts'
import { answerRefused, answerStored } from './answers.ts'
import { openEndpoint } from './endpoint.ts'
import { openInFlight, type Reservation } from './in-flight.ts'
import { type IngestLimits, LIMITS } from './limits.ts'
import { openRefusalLog } from './refusal-log.ts'
import { judge, type SecretSource } from './secrets.ts'

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
  const { url, host, port, teams, clock, logger, watch } = options
  const limits: IngestLimits = { ...LIMITS, ...options.limits }
  const inFlight = openInFlight(limits, teams.length)
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

  const refuse = (response: ServerResponse, reason: Rejection, team?: IngestTeam) => {
    watch.rejected(reason, team?.name)
    refusals.add(reason)
    answerRefused(response, reason)
  }
  const receive = async (
    request: IncomingMessage,
    response: ServerResponse,
    team: IngestTeam | undefined,
  ) => {
    if (team === undefined) return refuse(response, 'unknown_team')
    if (Number(request.headers['content-length'] ?? 0) > limits.body)
      return refuse(response, 'too_large', team)
    const reservation = inFlight.enter(team.teamId)
    if (reservation === null) return refuse(response, 'overload', team)
    try {
      const body = await readRawBody(request, limits.body, reservation)
      if (body === 'aborted') return
      if (typeof body === 'string') return refuse(response, body, team)
      const judgement = await judge(body, request.headers[SIGNATURE_HEADER], team.secrets)
      if (judgement !== 'genuine') return refuse(response, judgement, team)
      const outcome = await inbox.store(readEvent(team.teamId, body)).catch(() => null)
      if (closing !== null) response.setHeader('connection', 'close')
      if (outcome === null) return refuse(response, 'unavailable', team)
      if (outcome === 'removed') return refuse(response, 'unknown_team', team)
      watch.stored(team.name, outcome === 'duplicate')
      answerStored(response, outcome)
    } finally {
      reservation.release()
    }
  }
  const note = (reason: Rejection) => {
    watch.rejected(reason)
    refusals.add(reason)
  }
  const endpoint = openEndpoint(limits, {
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
    crowded: () => note('overload'),
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

/**
 * Reads the exact bytes of a request's body, whatever its headers declare.
 *
 * Invariant: the buffer never exceeds the reserved bytes, also when a body arrives byte by byte. A body that is too long
 * or does not fit is read to its end and discarded, so that its sender sees the answer. A body that arrives in thousands
 * of tiny parts is `malformed`: each part costs as much as a whole event.
 */
export type RawBody = Buffer | 'too_large' | 'overload' | 'malformed' | 'aborted'

const EMPTY = Buffer.alloc(0)
/** The smallest buffer for a body in several parts without a Content-Length. */
const MIN_BUFFER = 4 * 1024
/** Parts that may have any size, and the least mean size, in bytes, of a body with more parts. */
const PARTS = 2_000
const MIN_MEAN = 64

function readRawBody(request: IncomingMessage, limit: number, reservation: Reservation): Promise<RawBody> {
  const declared = Number(request.headers['content-length'] ?? 0)
  return new Promise((resolve) => {
    let buffer: Buffer | null = EMPTY
    let length = 0
    let parts = 0
    const end = (result: RawBody) => {
      if (buffer === null) return
      buffer = null
      resolve(result)
    }
    request.on('data', (part: Buffer) => {
      // The result is known: the rest is read and discarded.
      if (buffer === null) return
      const before = length
      length += part.length
      parts += 1
      if (length > limit) return end('too_large')
      if (parts > PARTS && length < parts * MIN_MEAN) return end('malformed')
      if (length > buffer.length) {
        const room =
          before === 0 ? Math.max(declared, length) : Math.min(limit, Math.max(MIN_BUFFER, length * 2))
        if (!reservation.grow(room - buffer.length)) return end('overload')
        // Nearly every body is one part, which is used without a copy.
        const larger = room === part.length ? part : Buffer.allocUnsafeSlow(room)
        buffer.copy(larger, 0, 0, before)
        buffer = larger
      }
      if (buffer !== part) part.copy(buffer, before)
    })
    request.on('end', () => {
      if (buffer !== null) end(length === buffer.length ? buffer : buffer.subarray(0, length))
    })
    request.on('close', () => end('aborted'))
    // An aborted request emits both 'error' and 'close'.
    request.on('error', () => {})
  })
}
