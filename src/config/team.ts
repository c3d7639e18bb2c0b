/**
 * One team of the configuration, with the settings that every team shares as defaults.
 *
 * Invariant: no request leaves this machine without TLS unless `INTAKE_ALLOW_HTTP` permits it; an error names the key
 * and never shows its value.
 */
import { z } from 'zod'
import type { RateLimit } from '../api/budget/limit-model.ts'
import { DEFAULT_BODY_KEYS, pathsWith } from '../api/paths.ts'
import { UsageError } from '../core/errors.ts'
import { ENDPOINTS } from '../streams/catalogue.ts'
import { durationShape, printableKey, rateLimitShape, type Settings } from './settings.ts'

const names = z.record(z.string(), z.string())

/** A team in the configuration file; unknown keys are refused, because a mistyped one would be ignored. */
export const teamShape = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,63}$/, 'letters, digits, dot, dash and underscore')
    .default('default'),
  baseUrl: z.string().optional(),
  apiKey: z.string().min(1).optional(),
  apiSecret: z.string().min(1).optional(),
  apiVersion: z.string().optional(),
  webhookSecrets: z.array(z.string().min(1)).default([]),
  timezone: z.string().optional(),
  concurrency: z.number().int().min(1).max(64).optional(),
  pageSize: z.number().int().min(1).max(100_000).optional(),
  rateLimit: z.string().optional(),
  paths: names.optional(),
  bodyKeys: names.optional(),
})

/** Settings for receiving a team's webhooks; a team without access to the service has only these. */
export interface IngestTeamConfig {
  readonly name: string
  /** Any of them may match; more may be stored in the warehouse. */
  readonly webhookSecrets: readonly string[]
}

export interface TeamConfig extends IngestTeamConfig {
  readonly baseUrl: string
  readonly apiKey: string
  readonly apiSecret: string
  readonly apiVersion: string
  readonly timezone: string
  readonly concurrency: number
  /** A run gives up after this many milliseconds without an accepted request. */
  readonly giveUpAfterMs: number
  /** Permitted requests; learned from answers where it is missing. */
  readonly rateLimit?: RateLimit
  readonly pageSize?: number
  readonly paths?: { readonly [name: string]: string }
  readonly bodyKeys?: { readonly [name: string]: string }
}

const ACCESS = ['baseUrl', 'apiKey', 'apiSecret'] as const

/** `nameOf` turns a key into the name that the user wrote: a variable, or a place in the file. */
export function teamOf(
  given: z.infer<typeof teamShape>,
  settings: Settings,
  nameOf: (key: string) => string,
): TeamConfig | IngestTeamConfig {
  const { name, webhookSecrets, baseUrl, apiKey, apiSecret, pageSize, paths, bodyKeys } = given
  if (baseUrl === undefined || apiKey === undefined || apiSecret === undefined) {
    refuseHalf(given, nameOf)
    return Object.freeze({ name, webhookSecrets })
  }
  const rateLimit = checkedRateLimit(
    given.rateLimit ?? (settings.get('INTAKE_RATE_LIMIT') || 'learned'),
    given.rateLimit === undefined ? 'INTAKE_RATE_LIMIT' : nameOf('rateLimit'),
  )
  return Object.freeze({
    name,
    baseUrl: checkedUrl(baseUrl, nameOf('baseUrl'), settings.get('INTAKE_ALLOW_HTTP') === '1'),
    apiKey: headerText(apiKey, nameOf('apiKey')),
    apiSecret: headerText(apiSecret, nameOf('apiSecret')),
    apiVersion: headerText(
      given.apiVersion ?? settings.get('INTAKE_API_VERSION') ?? 'v2.1',
      given.apiVersion === undefined ? 'INTAKE_API_VERSION' : nameOf('apiVersion'),
    ),
    webhookSecrets,
    timezone: checkedZone(
      given.timezone ?? (settings.get('INTAKE_TIMEZONE') || 'UTC'),
      given.timezone === undefined ? 'INTAKE_TIMEZONE' : nameOf('timezone'),
    ),
    concurrency: given.concurrency ?? checkedConcurrency(settings.get('INTAKE_CONCURRENCY') || '4'),
    giveUpAfterMs: checkedGiveUpAfter(settings.get('INTAKE_GIVE_UP_AFTER') || '15m'),
    ...(rateLimit === null ? {} : { rateLimit }),
    ...(pageSize === undefined ? {} : { pageSize }),
    ...(paths === undefined ? {} : { paths: checkedPaths(paths, nameOf('paths')) }),
    ...(bodyKeys === undefined ? {} : { bodyKeys: checkedBodyKeys(bodyKeys, nameOf('bodyKeys')) }),
  })
}

/** A team with only some of its access settings is a mistake; a team with none only receives. */
function refuseHalf(given: z.infer<typeof teamShape>, nameOf: (key: string) => string): void {
  const missing = ACCESS.filter((key) => given[key] === undefined)
  if (missing.length === ACCESS.length) return
  throw new UsageError(
    `${missing.map(nameOf).join(' and ')} must be set too`,
    `set ${ACCESS.map(nameOf).join(', ')} together`,
    nameOf(missing[0]!),
    'setting_missing',
  )
}

/** Loopback hosts. */
export const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

function checkedUrl(text: string, variable: string, allowHttp: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null
  const fail = (what: string, hint: string): never => {
    throw new UsageError(`${variable} ${what}`, hint, variable)
  }
  if (url === null || !/^https?:$/.test(url.protocol))
    return fail('is not an http(s) URL', 'write it as https://host')
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return fail('holds more than scheme, host and path', 'leave out user, password, query and fragment')
  }
  if (url.protocol === 'http:' && !allowHttp && !LOOPBACK.test(url.hostname)) {
    return fail(
      'is http, which would send health data in the clear',
      'use https, or set INTAKE_ALLOW_HTTP=1 if the network is private',
    )
  }
  return text.replace(/\/+$/, '')
}

/** `paths` unchanged: the client merges it with the defaults. */
function checkedPaths(paths: Readonly<Record<string, string>>, variable: string): Record<string, string> {
  for (const [name, path] of Object.entries(paths)) {
    try {
      pathsWith({ [name]: path }, ENDPOINTS)
    } catch (error) {
      const { message, hint } = error as UsageError
      const place = `${variable}.${printableKey(name)}`
      throw new UsageError(place + message.slice(`paths.${name}`.length), hint, place)
    }
  }
  return paths
}

/** A mistyped name would be ignored, and the service be called with a key that it does not know. */
function checkedBodyKeys(keys: Readonly<Record<string, string>>, variable: string): Record<string, string> {
  for (const [name, key] of Object.entries(keys)) {
    const place = `${variable}.${printableKey(name)}`
    if (!Object.hasOwn(DEFAULT_BODY_KEYS, name)) {
      throw new UsageError(
        `${place} is not a body key of the service`,
        `Use one of: ${Object.keys(DEFAULT_BODY_KEYS).join(', ')}.`,
        place,
      )
    }
    if (key === '') throw new UsageError(`${place} is empty`, 'Write the name of the key.', place)
  }
  return keys
}

function headerText(text: string, variable: string): string {
  if (/^[\x20-\x7e]*$/.test(text)) return text
  throw new UsageError(
    `${variable} contains characters that cannot be sent`,
    'copy it again; look for line ends and quotes',
    variable,
  )
}

function checkedZone(zone: string, variable: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone
  } catch {
    throw new UsageError(`${variable} is not a time zone`, 'write it as Europe/Berlin or UTC', variable)
  }
}

function checkedConcurrency(text: string): number {
  if (/^\d{1,2}$/.test(text) && Number(text) >= 1 && Number(text) <= 64) return Number(text)
  throw new UsageError(
    'INTAKE_CONCURRENCY is not a whole number from 1 to 64',
    'set INTAKE_CONCURRENCY to a number such as 4',
    'INTAKE_CONCURRENCY',
  )
}

/** One week. */
const MAX_GIVE_UP_SECONDS = 7 * 86_400

function checkedGiveUpAfter(text: string): number {
  const { data } = durationShape.pipe(z.number().max(MAX_GIVE_UP_SECONDS)).safeParse(text)
  if (data !== undefined) return data * 1000
  throw new UsageError(
    'INTAKE_GIVE_UP_AFTER is not a duration from 1s to 7d',
    'set INTAKE_GIVE_UP_AFTER to a duration such as 90s, 15m or 2h',
    'INTAKE_GIVE_UP_AFTER',
  )
}

function checkedRateLimit(text: string, variable: string): RateLimit | null {
  const { success, data } = rateLimitShape.safeParse(text)
  if (success) return data
  throw new UsageError(
    `${variable} is not a number of requests in a second, a minute or an hour`,
    'write it as 20/s, 1000/min or 5000/h (at most 100000, at least one a minute), or learned, to learn the limit from the answers',
    variable,
  )
}
