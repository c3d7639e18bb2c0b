/**
 * Posts raised and cleared alerts, signed the way the service signs its webhooks.
 *
 * Invariant: ends within its time limit, follows no redirect and reads only the status of the response. No error
 * contains the URL, because its path may be a secret.
 */
import { Agent, request } from 'undici'
import { deadlineIn } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { SIGNATURE_HEADER, sign } from '../../core/signature.ts'
import { type AlertRow, type Status, statusToPost } from './alert-rows.ts'
import { textsOf } from './causes.ts'

export interface Receiver {
  readonly url: string
  /** Null for unsigned posts. */
  readonly secret: string | null
}

const LIMIT_MS = 10_000
/** Undici's timeouts are this much longer than `limitMs`, so that ours ends the request. */
const GRACE_MS = 1_000

export interface Posting {
  readonly now: Date
  readonly signal: AbortSignal
  readonly version: string
  /** Default: 10 seconds. */
  readonly limitMs?: number
}

/** Throws `alerts_refused` unless the response is 2xx. */
export async function post(
  { url, secret }: Receiver,
  alerts: readonly AlertRow[],
  { now, signal, version, limitMs = LIMIT_MS }: Posting,
): Promise<void> {
  const body = Buffer.from(JSON.stringify(documentOf(alerts, now)))
  const timeout = limitMs + GRACE_MS
  const agent = new Agent({
    connect: { timeout },
    headersTimeout: timeout,
    bodyTimeout: timeout,
    pipelining: 0,
  })
  const deadline = deadlineIn(limitMs, [signal])
  try {
    const { statusCode, body: response } = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headers: {
        'content-type': 'application/json',
        'user-agent': `intake-sync/${version}`,
        ...(secret === null ? {} : { [SIGNATURE_HEADER]: sign(body, secret) }),
      },
      body,
      signal: deadline.signal,
    })
    response.destroy()
    response.on('error', () => {})
    if (statusCode < 200 || statusCode > 299) throw refused(`it responded ${statusCode}`)
  } catch (error) {
    if (error instanceof IntakeError) throw error
    const why = deadline.isOver() ? `no response within ${limitMs / 1000} seconds` : reasonOf(error)
    throw refused(why)
  } finally {
    deadline.release()
    await agent.destroy()
  }
}

function refused(why: string): IntakeError {
  return new IntakeError(`INTAKE_ALERT_URL did not accept the alerts: ${why}`, {
    code: 'alerts_refused',
    verdict: 'retry',
    hint: 'check INTAKE_ALERT_URL, and that its receiver is running',
  })
}

/** Returns the error code of Node.js or undici; never the message, which may contain the URL. */
function reasonOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' ? code : 'it could not be reached'
}

export interface AlertsDocument {
  readonly version: 1
  readonly sent_at: string
  /** One line for each alert, or for several streams with the same text. */
  readonly text: string
  readonly alerts: readonly {
    readonly id: string
    readonly status: Status
    readonly cause: string
    readonly team: string
    readonly stream: string | null
    readonly raised_at: string
    readonly cleared_at: string | null
    readonly figures: Readonly<Record<string, number>>
    readonly text: string
    readonly hint: string | null
    readonly mend: string | null
  }[]
}

function documentOf(rows: readonly AlertRow[], now: Date): AlertsDocument {
  const alerts = rows.map((row) => {
    const { id, cause, team, stream, raised_at, cleared_at, figures } = row
    const status = statusToPost(row) ?? 'raised'
    const { raised, cleared, hint } = textsOf(cause)
    return {
      ...{ id, status, cause, team, stream: stream === '' ? null : stream, raised_at, cleared_at, figures },
      text: status === 'raised' ? raised(figures) : cleared,
      hint: status === 'raised' ? hint : null,
      // The former name of `hint`, for one release.
      mend: status === 'raised' ? hint : null,
    }
  })
  return { version: 1, sent_at: now.toISOString(), text: textOf(alerts), alerts }
}

function textOf(alerts: AlertsDocument['alerts']): string {
  const lines = new Map<string, string[]>()
  for (const { status, team, stream, text, hint } of alerts) {
    const key = JSON.stringify([status, team, text, hint])
    lines.set(key, [...(lines.get(key) ?? []), ...(stream === null ? [] : [stream])])
  }
  return [...lines]
    .map(([key, streams]) => {
      const [status, team, text, hint] = JSON.parse(key) as [Status, string, string, string | null]
      const where = streams.length === 0 ? team : `${team} (${streams.join(', ')})`
      return `${status}: ${where}: ${text}${hint === null ? '' : ` — ${hint}`}`
    })
    .join('\n')
}
