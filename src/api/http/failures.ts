/**
 * Maps every HTTP status and every network fault to a failure: its verdict, its hint, and whether to retry.
 *
 * Invariant: a failure contains statuses, error codes and our own text only. It never contains a body, a reason
 * phrase, a header value or a message of another library, which may quote the answer.
 */
import type { ErrorCode } from '../../core/error-codes.ts'
import type { Verdict } from '../../core/errors.ts'

/**
 * - `never`: another attempt would fail in the same way.
 * - `backoff`: a few more attempts, with growing pauses.
 * - `soon`: the host does not answer: a few quick attempts, so that a wrong address is reported soon.
 * - `throttled`: 429; the limiter of the team decides when to retry and when to give up.
 */
export type RetryKind = 'never' | 'backoff' | 'soon' | 'throttled'

export interface Failure {
  readonly code: ErrorCode
  readonly verdict: Verdict
  readonly again: RetryKind
  /** Completes "GET /v2/patients: …". */
  readonly what: string
  readonly hint: string
  readonly status?: number
  /** True if the request certainly had no effect. */
  readonly untouched: boolean
  /** No request of the team can be expected to do better. */
  readonly gaveUp?: true
}

const CREDENTIALS =
  'Check INTAKE_API_KEY and INTAKE_API_SECRET; a sandbox key does not open production, nor the reverse.'
/** Statuses about the form of our requests: every other request would fail too. */
const CONFIGURATION = new Set([402, 406, 407, 411, 415, 417, 421, 426, 428, 431, 501, 505, 511])
const LATER = 'Run again later; if it goes on, ask the service’s operators.'

/** The failure for an HTTP status. `one` is true if the request names one resource by id. */
export function failureOfStatus(status: number, one: boolean): Failure {
  const known = (
    code: ErrorCode,
    verdict: Verdict,
    again: RetryKind,
    what: string,
    hint: string,
  ): Failure => ({
    code,
    verdict,
    again,
    what: `${what} (${status})`,
    hint,
    status,
    untouched: status < 500,
  })
  if (status === 401)
    return known('no_credentials', 'stop', 'never', 'the service saw no credentials', CREDENTIALS)
  if (status === 403)
    return known('bad_credentials', 'stop', 'never', 'the service refused the credentials', CREDENTIALS)
  if (status === 404 || status === 410) {
    return known(
      'not_found',
      'gone',
      'never',
      'not found',
      'The resource is deleted, or another team’s; if every path says so, check INTAKE_BASE_URL.',
    )
  }
  if (status === 405) {
    return known(
      'not_allowed',
      'stop',
      'never',
      'the path does not allow this method',
      'The service has no such endpoint there: set its path in `paths` of the configuration.',
    )
  }
  if (CONFIGURATION.has(status)) {
    return known(
      'misconfigured',
      'stop',
      'never',
      'the service takes no requests of this form',
      'Check INTAKE_BASE_URL, INTAKE_API_VERSION and any proxy in between.',
    )
  }
  if (status === 429) return known('throttled', 'retry', 'throttled', THROTTLED, LATER)
  if (status === 408 || status === 425)
    return known('unavailable', 'retry', 'backoff', 'the service did not take the request', LATER)
  if (status >= 500) return known('unavailable', 'retry', 'backoff', 'the service failed', LATER)
  if (status >= 400) {
    return known(
      'refused',
      one ? 'dead_letter' : 'stop',
      'never',
      'the service refused the request as invalid',
      'Check the filters, the body and `paths` in the configuration against the service’s documentation.',
    )
  }
  return known(
    'unexpected_status',
    'stop',
    'never',
    'the service answered with a status we cannot use',
    LATER,
  )
}

const THROTTLED = 'the service throttles this team'

/** The failure of a throttled call that gives up: no request was accepted for too long, or the pause is too long. */
export function failureOfThrottling(why: 'gave_up' | 'too_long', giveUpAfterMs: number): Failure {
  const limit = durationText(giveUpAfterMs)
  const reason =
    why === 'gave_up'
      ? `, and accepted no request for ${limit}`
      : ` and requests a pause longer than ${limit}`
  return {
    ...{ code: 'throttled', verdict: 'retry', again: 'never', gaveUp: true },
    what: `${THROTTLED}${reason} (429)`,
    hint: `Run fewer clients of this team at a time, or ask the service’s operators for a higher limit; INTAKE_GIVE_UP_AFTER (${limit}) says how long to wait.`,
    status: 429,
    untouched: true,
  }
}

/** In the format of the configuration: `90s`, `15m`, `2h`. */
export function durationText(milliseconds: number): string {
  const seconds = milliseconds / 1000
  if (seconds % 3600 === 0) return `${seconds / 3600}h`
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`
}

/** The failure for a redirect. `onlySlash`: the target differs from the path only in a trailing slash. */
export function failureOfRedirect(status: number, onlySlash: boolean): Failure {
  return {
    code: 'redirected',
    verdict: 'stop',
    again: 'never',
    what: onlySlash
      ? `the service redirects to the same path with its slash at the end changed (${status}), and redirects are not followed`
      : `the service redirects (${status}), and redirects are not followed`,
    hint: onlySlash
      ? 'Correct the path in `paths` of the configuration.'
      : 'Set INTAKE_BASE_URL to the current address of the service.',
    status,
    // Some services answer 302 or 303 to a successful write.
    untouched: status !== 302 && status !== 303,
  }
}

/** The failure for an answer that is complete but unreadable. */
export function failureOfBody(fault: 'not_json' | 'too_deep' | 'too_large' | 'encoding'): Failure {
  const base = { untouched: false }
  switch (fault) {
    case 'not_json':
      return {
        ...base,
        code: 'not_json',
        verdict: 'retry',
        again: 'backoff',
        what: 'the answer is not JSON',
        hint: 'A proxy may stand in between: check INTAKE_BASE_URL, then run again later.',
      }
    case 'encoding':
      return {
        ...base,
        code: 'bad_encoding',
        verdict: 'retry',
        again: 'backoff',
        what: 'the compressed answer cannot be unpacked',
        hint: LATER,
      }
    case 'too_deep':
      return {
        ...base,
        code: 'too_deep',
        verdict: 'stop',
        again: 'never',
        what: 'the answer is nested too deeply to read',
        hint: 'A record in it nests too deeply: ask the service’s operators to fix it.',
      }
    case 'too_large':
      return {
        ...base,
        code: 'too_large',
        verdict: 'stop',
        again: 'never',
        what: 'the answer is larger than we accept',
        hint: 'Set a smaller `pageSize` in the configuration.',
      }
  }
}

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
])
const TIMEOUTS: { readonly [code: string]: string } = {
  UND_ERR_HEADERS_TIMEOUT: 'no answer came in time',
  UND_ERR_BODY_TIMEOUT: 'the answer stopped half-way',
  ATTEMPT_TIMEOUT: 'the answer took too long',
}

/** The failure for a network error; `address` is `host:port` of the configured service. */
export function failureOfFault(thrown: unknown, address: string): Failure {
  const code = codeOf(thrown)
  const named = code === null ? '' : ` (${code})`
  if (code !== null && (UNREACHABLE.has(code) || code === 'UND_ERR_CONNECT_TIMEOUT')) {
    return {
      code: 'unreachable',
      verdict: 'retry',
      again: 'soon',
      what: `cannot reach ${address}${named}`,
      hint: 'Check INTAKE_BASE_URL, the network and any proxy.',
      untouched: true,
    }
  }
  if (code !== null && /CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_|ALTNAME|ERR_OSSL/.test(code)) {
    return {
      code: 'tls',
      verdict: 'stop',
      again: 'never',
      what: `no secure connection to ${address}${named}`,
      hint: 'Check INTAKE_BASE_URL and the certificate; NODE_EXTRA_CA_CERTS adds an authority of your own.',
      untouched: true,
    }
  }
  const timeout = code === null ? undefined : TIMEOUTS[code]
  return {
    code: timeout === undefined ? 'connection_lost' : 'timeout',
    verdict: 'retry',
    again: 'backoff',
    what: timeout ?? `the connection broke before the whole answer came${named}`,
    hint: LATER,
    untouched: false,
  }
}

function codeOf(thrown: unknown): string | null {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 4; error = error.cause, depth++) {
    const { code } = error as { code?: unknown }
    if (typeof code === 'string' && /^[A-Z0-9_]{2,60}$/.test(code) && code !== 'UND_ERR') return code
    if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0])
  }
  return null
}
