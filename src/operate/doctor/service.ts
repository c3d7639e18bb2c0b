/**
 * The service of one team: whether its credentials are taken, which environment answers, and how far its clock is off.
 *
 * Invariant: the list of forms is asked for, which holds no health data, once or a few times, and nothing else.
 */
import type { Logger } from 'pino'
import { type ClientOptions, openClient } from '../../api/client.ts'
import { ApiError } from '../../api/errors.ts'
import { readList } from '../../api/paging/list-envelope.ts'
import { openServiceClock, type ServiceClock } from '../../api/service-clock.ts'
import type { Clock } from '../../core/clock.ts'
import { deadlineIn } from '../../core/deadline.ts'
import { IntakeError } from '../../core/errors.ts'
import { type Check, failed, ok, warning } from './check.ts'

export interface ServiceTeam
  extends Pick<ClientOptions, 'baseUrl' | 'apiKey' | 'apiSecret' | 'apiVersion' | 'concurrency' | 'paths'> {
  readonly name: string
}

export interface Asking {
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  /** What the warehouse was filled from, as the service called it; null where it is not known. */
  readonly environment: string | null
  /** Added to the names of the checks, where there are several teams. */
  readonly suffix: string
  /** Twenty seconds when left out. */
  readonly limitMs?: number
}

const LIMIT_MS = 20_000
const ELSEWHERE = 'check INTAKE_BASE_URL: what answers there does not have the service’s paths'
const WARN_SECONDS = 60
const FAIL_SECONDS = 300

export async function lookAtService(team: ServiceTeam, asking: Asking): Promise<readonly Check[]> {
  const { clock, logger, environment: before, suffix, limitMs = LIMIT_MS } = asking
  const { name: _name, ...connection } = team
  using late = deadlineIn(limitMs, [asking.signal])
  const { signal } = late
  const serviceClock = openServiceClock()
  const giveUpAfterMs = limitMs
  await using client = openClient({ ...connection, giveUpAfterMs, clock, logger, signal, random: () => 0 })
  let trouble: unknown = null
  try {
    const onRefusal = serviceClock.sample
    const path = client.paths.forms
    const answer = await client.get(path, { onRefusal })
    serviceClock.sample(answer)
    if (readList(answer.body, answer.headers, 'forms', path) === null) trouble = noList(path)
  } catch (error) {
    asking.signal.throwIfAborted()
    const isThrottled = client.totals.throttled > 0 && client.totals.throttled === client.totals.requests
    if (isThrottled) return [throttledCheck(suffix)]
    trouble = late.isOver() ? tooSlow(limitMs) : error
  }
  const { environment } = client
  const checks = [credentialsCheck(trouble, environment, before, suffix)]
  if (environment !== null || trouble === null) checks.push(environmentCheck(environment, before, suffix))
  if (environment !== null || trouble === null) checks.push(clockCheck(serviceClock, suffix))
  return checks
}

function credentialsCheck(
  trouble: unknown,
  environment: string | null,
  before: string | null,
  suffix: string,
): Check {
  const name = `credentials${suffix}`
  if (trouble === null) return ok(name, 'the service takes them')
  if (!(trouble instanceof IntakeError)) throw trouble
  const { message, hint } = trouble
  if (trouble.verdict === 'gone') return failed(name, message, ELSEWHERE)
  const status = trouble instanceof ApiError ? trouble.status : undefined
  if (status !== 403) return failed(name, message, hint ?? 'check INTAKE_BASE_URL')
  const who = environment === null ? 'the service' : `the ${environment} environment of the service`
  if (environment !== null && before !== null && before !== environment) {
    return failed(
      name,
      `${who} refuses them, and the warehouse was filled from ${before}: they are ${before} credentials`,
      `set the API key and secret of ${environment}, or the base URL of ${before}`,
    )
  }
  return failed(
    name,
    `${who} refuses the pair of key and secret (403): one of them is wrong, or they are of another environment`,
    `copy both again from the service's dashboard${environment === null ? '' : `, for ${environment}`}; a sandbox key does not open production`,
  )
}

/** 429 says nothing about the credentials: another client uses up the budget of the team, or did a moment ago. */
function throttledCheck(suffix: string): Check {
  return warning(
    `credentials${suffix}`,
    'could not be checked: the service throttles this team (429)',
    'run doctor again when no other client of this team is running',
  )
}

function environmentCheck(environment: string | null, before: string | null, suffix: string): Check {
  const name = `environment${suffix}`
  if (environment === null)
    return warning(
      name,
      'the service names no environment (X-Service-Environment)',
      'check that the base URL leads to the service itself, and no proxy drops its headers',
    )
  if (before !== null && before !== environment) {
    return failed(
      name,
      `the warehouse was filled from ${before}, and this is ${environment}`,
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

/** An answer that is well and says nothing: of a proxy, say, or of a page that greets whoever comes. */
function noList(path: string): IntakeError {
  return new IntakeError(`GET ${path}: the answer holds no list`, {
    code: 'list_unreadable',
    verdict: 'stop',
    hint: 'check INTAKE_BASE_URL: what answers there may not be the service',
  })
}

function tooSlow(limitMs: number): IntakeError {
  return new IntakeError(`the service did not answer within ${limitMs / 1_000} s`, {
    code: 'timeout',
    verdict: 'retry',
    hint: 'check INTAKE_BASE_URL, and the way there (firewall, proxy)',
  })
}
