/**
 * One post of what was raised and what has cleared, signed as the service signs its webhooks.
 *
 * Invariant: ends within its limit, follows no redirect, reads nothing of the answer but its status, and tells
 * nobody the address, whose path may be a secret.
 */
import { Agent, request } from 'undici'
import { deadlineIn } from '../../core/deadline.ts'
import { IntakeError } from '../../core/errors.ts'
import { SIGNATURE_HEADER, sign } from '../../core/signature.ts'
import { wordsOf } from './causes.ts'
import { type Entry, type Told, untold } from './ledger.ts'

export interface Receiver {
  readonly url: string
  /** Null: what is posted is not signed. */
  readonly secret: string | null
}

const LIMIT_MS = 10_000
/** Undici's own limits come after ours. */
const GRACE_MS = 1_000

export interface Posting {
  readonly now: Date
  readonly signal: AbortSignal
  readonly version: string
  /** Ten seconds when left out. */
  readonly limitMs?: number
}

/** Throws when it was not answered 2xx. */
export async function post(
  { url, secret }: Receiver,
  entries: readonly Entry[],
  { now, signal, version, limitMs = LIMIT_MS }: Posting,
): Promise<void> {
  const body = Buffer.from(JSON.stringify(documentOf(entries, now)))
  const second = limitMs + GRACE_MS
  const agent = new Agent({
    connect: { timeout: second },
    headersTimeout: second,
    bodyTimeout: second,
    pipelining: 0,
  })
  const deadline = deadlineIn(limitMs, [signal])
  try {
    const { statusCode, body: answer } = await request(url, {
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
    answer.destroy()
    answer.on('error', () => {})
    if (statusCode < 200 || statusCode > 299) throw refused(`it answered ${statusCode}`)
  } catch (error) {
    if (error instanceof IntakeError) throw error
    const why = deadline.isOver() ? `no answer within ${limitMs / 1000} seconds` : reasonOf(error)
    throw refused(why)
  } finally {
    deadline.letGo()
    await agent.destroy()
  }
}

function refused(why: string): IntakeError {
  return new IntakeError(`INTAKE_ALERT_URL did not take the alerts: ${why}`, {
    code: 'alerts_refused',
    verdict: 'retry',
    hint: 'check INTAKE_ALERT_URL, and whether what answers there is up',
  })
}

/** A code of Node's or of undici's; never a message, which may hold the address. */
function reasonOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' ? code : 'it could not be reached'
}

export interface AlertsDocument {
  readonly version: 1
  readonly sent_at: string
  /** All of it, in words, a line each. */
  readonly text: string
  readonly alerts: readonly {
    readonly id: string
    readonly status: Told
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

function documentOf(entries: readonly Entry[], now: Date): AlertsDocument {
  const alerts = entries.map((entry) => {
    const { id, cause, team, stream, raised_at, cleared_at, figures } = entry
    const status = untold(entry) ?? 'raised'
    const { raised, cleared, hint } = wordsOf(cause)
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

/** One line for what is the same of several streams. */
function textOf(alerts: AlertsDocument['alerts']): string {
  const lines = new Map<string, string[]>()
  for (const { status, team, stream, text, hint } of alerts) {
    const key = JSON.stringify([status, team, text, hint])
    lines.set(key, [...(lines.get(key) ?? []), ...(stream === null ? [] : [stream])])
  }
  return [...lines]
    .map(([key, streams]) => {
      const [status, team, text, hint] = JSON.parse(key) as [Told, string, string, string | null]
      const where = streams.length === 0 ? team : `${team} (${streams.join(', ')})`
      return `${status}: ${where}: ${text}${hint === null ? '' : ` — ${hint}`}`
    })
    .join('\n')
}
