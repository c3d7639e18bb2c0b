/**
 * Checks of one team's service: credentials, environment and clock.
 *
 * Invariant: requests only the list of a stream whose records name no person, so that it contains no health data.
 */
import type { Logger } from 'pino'
import { type ClientOptions, openClient } from '../../api/client.ts'
import { ApiError } from '../../api/errors.ts'
import { readList } from '../../api/paging/list-envelope.ts'
import { openServiceClock, type ServiceClock } from '../../api/service-clock.ts'
import { type Clock, deadlineIn } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { ENDPOINTS, PERSONS, STREAMS } from '../../streams/catalogue.ts'
import { STREAMS_OF_PERSONS } from '../../streams/subjects.ts'
import { type Check, failed, ok, warning } from './check.ts'

export interface ServiceTeam
  extends Pick<
    ClientOptions,
    'baseUrl' | 'apiKey' | 'apiSecret' | 'apiVersion' | 'concurrency' | 'rateLimit' | 'paths'
  > {
  readonly name: string
}

export interface ServiceCheckOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  /** The environment that the warehouse was loaded from, as the service names it; null if unknown. */
  readonly environment: string | null
  /** Appended to the names of the checks; empty for a single team. */
  readonly suffix: string
  /** Default: 20 seconds. */
  readonly limitMs?: number
}

const LIMIT_MS = 20_000
const HARMLESS = STREAMS.find(({ name }) => name !== PERSONS.name && !STREAMS_OF_PERSONS.has(name))!
const WRONG_URL = 'check INTAKE_BASE_URL: the server there does not have the paths of the service'
const REFUSED = 'check INTAKE_API_VERSION, and that INTAKE_BASE_URL leads to the service itself'
const WARN_SECONDS = 60
const FAIL_SECONDS = 300

export async function checkService(
  team: ServiceTeam,
  options: ServiceCheckOptions,
): Promise<readonly Check[]> {
  const { clock, logger, environment: before, suffix, limitMs = LIMIT_MS } = options
  const { name: _name, ...connection } = team
  using deadline = deadlineIn(limitMs, [options.signal])
  const { signal } = deadline
  const serviceClock = openServiceClock()
  const giveUpAfterMs = limitMs
  await using client = openClient({
    ...connection,
    endpoints: ENDPOINTS,
    giveUpAfterMs,
    clock,
    logger,
    signal,
    random: () => 0,
  })
  let failure: unknown = null
  try {
    const onRefusal = serviceClock.sample
    const path = client.pathOf(HARMLESS.list!)
    const response = await client.get(path, { onRefusal })
    serviceClock.sample(response)
    const resource = HARMLESS.listedAs ?? HARMLESS.name
    if (readList(response.body, response.headers, resource, path) === null) failure = noList(path)
  } catch (error) {
    options.signal.throwIfAborted()
    const isThrottled = client.totals.throttled > 0 && client.totals.throttled === client.totals.requests
    if (isThrottled) return [throttledCheck(suffix)]
    failure = deadline.isOver() ? tooSlow(limitMs) : error
  }
  const { environment } = client
  const checks = [credentialsCheck(failure, environment, before, suffix)]
  if (environment !== null || failure === null) checks.push(environmentCheck(environment, before, suffix))
  if (environment !== null || failure === null) checks.push(clockCheck(serviceClock, suffix))
  return checks
}

function credentialsCheck(
  failure: unknown,
  environment: string | null,
  before: string | null,
  suffix: string,
): Check {
  const name = `credentials${suffix}`
  if (failure === null) return ok(name, 'the service accepts them')
  if (!(failure instanceof IntakeError)) throw failure
  const { message, hint } = failure
  if (failure.verdict === 'gone') return failed(name, message, WRONG_URL)
  const status = failure instanceof ApiError ? failure.status : undefined
  // The request has neither filters nor a body.
  if (failure.code === 'refused') return failed(name, message, REFUSED)
  if (status !== 403) return failed(name, message, hint ?? 'check INTAKE_BASE_URL')
  const who = environment === null ? 'the service' : `the ${environment} environment of the service`
  if (environment !== null && before !== null && before !== environment) {
    return failed(
      name,
      `${who} refuses them, and the warehouse was loaded from ${before}: they are credentials of ${before}`,
      `set the API key and secret of ${environment}, or the base URL of ${before}`,
    )
  }
  return failed(
    name,
    `${who} refuses the pair of key and secret (403): one of them is wrong, or they belong to another environment`,
    `copy both again from the service's dashboard${environment === null ? '' : `, for ${environment}`}; a sandbox key is not valid in production`,
  )
}

/** 429 does not show whether the credentials are valid: another client has used up the budget of the team. */
function throttledCheck(suffix: string): Check {
  return warning(
    `credentials${suffix}`,
    'not checked: the service throttles this team (429)',
    'run doctor again when no other client of this team is running',
  )
}

function environmentCheck(environment: string | null, before: string | null, suffix: string): Check {
  const name = `environment${suffix}`
  if (environment === null)
    return warning(
      name,
      'the service names no environment (X-Service-Environment)',
      'check that the base URL leads to the service itself, and that no proxy drops its headers',
    )
  if (before !== null && before !== environment) {
    return failed(
      name,
      `the warehouse was loaded from ${before}, and this is ${environment}`,
      `use another INTAKE_TEAM for ${environment}, or the base URL and credentials of ${before}`,
    )
  }
  return ok(name, environment)
}

function clockCheck(serviceClock: ServiceClock, suffix: string): Check {
  const name = `clock${suffix}`
  const seconds = Math.round(serviceClock.skewSeconds())
  const off = Math.abs(seconds)
  const detail = `the clocks differ by ${off} s: the service's is ${seconds > 0 ? 'ahead' : 'behind'}`
  const hint = 'set this machine’s clock (NTP); if it is right, ask the service’s operators'
  if (off >= FAIL_SECONDS) return failed(name, detail, hint)
  return off >= WARN_SECONDS
    ? warning(name, detail, hint)
    : ok(name, off < 2 ? 'agrees with the service’s' : detail)
}

/** Each process obeys a configured limit by itself, which only its user can judge. */
export function rateLimitCheck({ rateLimit }: Pick<ServiceTeam, 'rateLimit'>, suffix: string): Check {
  const name = `rate limit${suffix}`
  if (rateLimit === undefined) return ok(name, 'learned from answers (no INTAKE_RATE_LIMIT)')
  const { requests, seconds } = rateLimit
  return ok(name, `at most ${requests} requests in ${seconds} s, in each process`)
}

/** A 200 response that is not a list, for example from a proxy or a landing page. */
function noList(path: string): IntakeError {
  return new IntakeError(`GET ${path}: the response contains no list`, {
    code: 'list_unreadable',
    verdict: 'stop',
    hint: 'check INTAKE_BASE_URL: the server there may not be the service',
  })
}

function tooSlow(limitMs: number): IntakeError {
  return new IntakeError(`the service did not respond within ${limitMs / 1_000} s`, {
    code: 'timeout',
    verdict: 'retry',
    hint: 'check INTAKE_BASE_URL, and the network path to it (firewall, proxy)',
  })
}
