/**
 * The settings of both environments, and the options that they are made from, validated and with their defaults.
 *
 * Invariant: the emulator can start with every result of `completeOptions`. An invalid option throws an
 * `EmulatorOptionError` that names it; none is ignored.
 */
import { type Clock, wallClock } from './clock.ts'
import { type Bursts, type FaultRule, parseFaults } from './faults.ts'
import { shapeNamed } from './shapes/catalogue.ts'
import type { Shape } from './shapes/shape.ts'
import type { Sizes } from './world/seeded/seed.ts'

/** Those that are not `readonly` can change while the emulator runs. */
export interface Settings {
  readonly seed: string
  readonly shape: Shape
  readonly defaultPageSize: number
  rateLimit: RateLimit | null
  faults: readonly FaultRule[]
  /** Faults for the next requests, one each; they take precedence over rules. */
  readonly next: { readonly path: string; readonly rule: FaultRule }[]
  /** Refusals that continue over several requests. */
  readonly bursts: Bursts
  /** Requests that faults could have applied to so far; it makes faults the same in every run. */
  requests: number
}

/**
 * The rate limit of one team: a sliding window of real time.
 *
 * Invariant: at most `requests` calls are admitted in any `seconds`; rejected calls do not count, so repeating them
 * does not lengthen the wait.
 */
export interface RateLimit {
  readonly requests: number
  readonly seconds: number
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }

/** Reads `10/s`, `600/m`, `5000/h`, or a bare number per second; a fraction becomes one request: `2.5/s` is one per 0.4 s. */
export function parseRateLimit(text: string): RateLimit | undefined {
  const match = /^(\d+(?:\.\d+)?)(?:\/(s|m|h))?$/.exec(text.trim())
  if (match === null) return undefined
  const [requests, seconds] = [Number(match[1]), SECONDS[match[2] ?? 's']!]
  if (Number.isInteger(requests)) return { requests, seconds }
  return { requests: 1, seconds: seconds / requests }
}

export class SlidingWindow {
  #passed: number[] = []
  #oldest = 0

  /** Admits a call at `now` (microseconds) and returns 0, or returns the microseconds to wait. */
  admit(limit: RateLimit, now: number): number {
    const start = now - limit.seconds * 1_000_000
    while (this.#oldest < this.#passed.length && this.#passed[this.#oldest]! <= start) this.#oldest += 1
    if (this.#oldest > 1024 && this.#oldest * 2 > this.#passed.length) {
      this.#passed = this.#passed.slice(this.#oldest)
      this.#oldest = 0
    }
    const count = this.#passed.length - this.#oldest
    if (count < limit.requests) {
      this.#passed.push(now)
      return 0
    }
    return this.#passed[this.#passed.length - limit.requests]! - start
  }
}

export interface EmulatorOptions {
  /** Production listens here, sandbox on the next port; 0 takes any two that are free. */
  readonly port?: number
  readonly seed?: string | number
  /** Generated patients of each team. */
  readonly patients?: number
  /** Generated responses of each team (400), with the messages and packets that they belong to. */
  readonly responses?: number
  /** Generated forms of each team (12). */
  readonly forms?: number
  readonly packets?: number
  readonly documents?: number
  /** Credentials of the first team of production. */
  readonly apiKey?: string
  readonly apiSecret?: string
  /** Default page size. */
  readonly pageSize?: number
  /** Permitted requests per team: a number per second, or `requests` per `seconds`; null for no limit. */
  readonly rateLimit?: number | RateLimit | null
  readonly shape?: string
  readonly faults?: string
  /** Background changes per second in the first team of production. */
  readonly activity?: number
  /** How many times faster than real time the service's clock runs. */
  readonly timeScale?: number
  readonly importPatients?: string
  readonly importQuestionnaires?: string
  readonly importSurvey?: string | readonly string[]
  /** Lets webhooks leave this machine; without it they go to loopback alone. */
  readonly allowRemoteWebhooks?: boolean
  /** Real milliseconds that a receiver of webhooks has for its answer (10,000). */
  readonly webhookTimeoutMs?: number
  /** Real time; tests replace it. */
  readonly clock?: Clock
}

export interface CompleteOptions {
  readonly port: number
  readonly seed: string
  readonly sizes: Sizes
  readonly apiKey: string | undefined
  readonly apiSecret: string | undefined
  readonly pageSize: number
  readonly rateLimit: RateLimit | null
  readonly shape: Shape
  readonly faults: readonly FaultRule[]
  readonly activity: number
  readonly timeScale: number
  readonly importPatients: string | undefined
  readonly importQuestionnaires: string | undefined
  readonly importSurvey: readonly string[]
  readonly allowRemoteWebhooks: boolean
  readonly webhookTimeoutMs: number
  readonly clock: Clock
}

const GREATEST_WORLD = 2 ** 31

export function completeOptions(options: EmulatorOptions): CompleteOptions {
  const seed = String(options.seed ?? 1)
  return {
    port: whole('port', options.port ?? 4010, 0, 65_534),
    seed,
    sizes: {
      patients: whole('patients', options.patients ?? 200, 0, GREATEST_WORLD),
      forms: whole('forms', options.forms ?? 12, 0, GREATEST_WORLD),
      packets: whole('packets', options.packets ?? 4, 0, GREATEST_WORLD),
      documents: whole('documents', options.documents ?? 4, 0, GREATEST_WORLD),
      responses: whole('responses', options.responses ?? 400, 0, GREATEST_WORLD),
    },
    apiKey: filled('api-key', options.apiKey),
    apiSecret: filled('api-secret', options.apiSecret),
    pageSize: whole('page-size', options.pageSize ?? 100, 1, 100_000),
    rateLimit: rateLimitOf(options.rateLimit ?? null),
    shape: named('shape', () => shapeNamed(options.shape ?? 'default', seed)),
    faults: named('faults', () => parseFaults(options.faults ?? '')),
    activity: positive('activity', options.activity ?? 0, true),
    timeScale: positive('time-scale', options.timeScale ?? 1, false),
    importPatients: filled('import-patients', options.importPatients),
    importQuestionnaires: filled('import-questionnaires', options.importQuestionnaires),
    importSurvey: [options.importSurvey ?? []].flat().map((path) => filled('import-survey', path)!),
    allowRemoteWebhooks: options.allowRemoteWebhooks ?? false,
    webhookTimeoutMs: whole('webhook-timeout-ms', options.webhookTimeoutMs ?? 10_000, 1, 600_000),
    clock: options.clock ?? wallClock,
  }
}

/** A number is requests per second; a fraction becomes one request per `1 / limit` seconds. */
export function rateLimitOf(limit: number | RateLimit | null): RateLimit | null {
  if (limit === null) return null
  if (typeof limit === 'number') positive('rate-limit', limit, false)
  const full = typeof limit !== 'number' ? limit : perSecond(limit)
  if (!(full.requests >= 1) || !(full.seconds > 0))
    throw new EmulatorOptionError('rate-limit', 'must be more than 0')
  return full
}

function perSecond(rate: number): RateLimit {
  return Number.isInteger(rate) ? { requests: rate, seconds: 1 } : { requests: 1, seconds: 1 / rate }
}

function whole(option: string, value: number, least: number, greatest: number): number {
  if (Number.isInteger(value) && value >= least && value <= greatest) return value
  throw new EmulatorOptionError(option, `must be a whole number from ${least} to ${greatest}`)
}

function positive(option: string, value: number, orZero: boolean): number {
  if (Number.isFinite(value) && (value > 0 || (orZero && value === 0))) return value
  throw new EmulatorOptionError(option, `must be a number ${orZero ? 'not below' : 'above'} 0`)
}

function filled(option: string, value: string | undefined): string | undefined {
  if (value === '') throw new EmulatorOptionError(option, 'must not be empty')
  return value
}

function named<T>(option: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof RangeError) throw new EmulatorOptionError(option, error.message)
    throw error
  }
}

/** An invalid option of the emulator. `option` is its command-line name without dashes. */
export class EmulatorOptionError extends Error {
  readonly option: string

  constructor(option: string, message: string) {
    super(`--${option}: ${message}`)
    this.name = 'EmulatorOptionError'
    this.option = option
  }
}
