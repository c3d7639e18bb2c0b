/**
 * Checks of `DATABASE_URL`, and of the address and thresholds of alerts.
 *
 * Invariant: a connection string that passes does not make the Postgres library throw in the middle of a run. An error
 * shows no part of an address, whose path or query may be a secret.
 */
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { durationShape } from './settings.ts'
import { LOOPBACK } from './team.ts'

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

/** Both verify the server's certificate: the library reads verify-ca as verify-full. */
const VERIFYING: ReadonlySet<string | null> = new Set(['verify-ca', 'verify-full'])

/**
 * Returns `url` unchanged. Throws `UsageError`, which shows no part of it, also where health data would leave this machine
 * over a connection whose server is not verified, unless `allowInsecure`.
 */
export function checkedDatabaseUrl(url: string, allowInsecure: boolean): string {
  if (hostsIn(url).includes(',')) throw severalHosts()
  const { username, password, searchParams } = parsed(url)
  if (/%(?![\da-f]{2})/i.test(username + password) || !isDecodable(username) || !isDecodable(password)) {
    throw wrong(
      'the user or password in DATABASE_URL is not percent-encoded',
      'in DATABASE_URL, write % as %25, @ as %40, : as %3A, / as %2F',
    )
  }
  const mode = searchParams.get('sslmode')
  if (mode !== null && !SSL_MODES.includes(mode))
    throw wrong(
      'DATABASE_URL has an unknown sslmode',
      `set sslmode in DATABASE_URL to one of: ${SSL_MODES.join(', ')}`,
    )
  const client = asRead(url)
  if (client.host.includes(',')) throw severalHosts()
  if (!(client.port > 0 && client.port < 65_536)) throw badPort()
  if (!allowInsecure && !isLocal(client.host) && !(VERIFYING.has(mode) && isVerified(client)))
    throw wrong(
      'DATABASE_URL names another machine without sslmode=verify-full, which could send health data in the clear',
      'add ?sslmode=verify-full (and sslrootcert=FILE for a CA of your own) to DATABASE_URL, or set INTAKE_ALLOW_INSECURE_DATABASE=1 if the network is private',
    )
  return url
}

/** Loopback, or the folder of a Unix socket. */
function isLocal(host: string): boolean {
  return host.startsWith('/') || LOOPBACK.test(host) || host === '::1'
}

/** Parameters such as uselibpqcompat change what a mode means. */
function isVerified(client: pg.Client): boolean {
  const { ssl } = client as unknown as { readonly ssl: boolean | ConnectionOptions }
  if (typeof ssl !== 'object') return ssl
  return ssl.rejectUnauthorized !== false
}

/** Also accepts a socket's folder in place of the host: `postgres://user@/db?host=/run`. */
function parsed(url: string): URL {
  const text = URL.canParse(url) ? url : url.replace('@/', '@socket/')
  if (URL.canParse(text)) return new URL(text)
  throw URL.canParse(text.replace(PORT, '$1')) ? badPort() : notReadable()
}

/** A port, after a host, and what comes before it. */
const PORT = /^(\w+:\/\/(?:[^/?#]*@)?(?:\[[^\]]*\]|[^/?#:@]*)):[^/?#@]*(?=[/?#]|$)/

/** Hosts and ports, without the user. */
function hostsIn(url: string): string {
  return /^\w+:\/\/([^/?#]*)/.exec(url)?.[1]?.split('@').at(-1) ?? ''
}

/** libpq tries them in turn; the library takes them for one name. */
function severalHosts(): UsageError {
  return wrong(
    'DATABASE_URL names several hosts',
    'name one address in DATABASE_URL that follows the primary: a proxy, a virtual address or a DNS name',
  )
}

function badPort(): UsageError {
  return wrong('the port in DATABASE_URL is not a number from 1 to 65535', SHAPE)
}

function notReadable(): UsageError {
  return wrong('DATABASE_URL is not a Postgres connection string', SHAPE)
}

const SHAPE = 'set DATABASE_URL to postgres://user:password@host:5432/database'

function asRead(url: string): pg.Client {
  try {
    return new pg.Client({ connectionString: url }) // reads certificates, connects to nothing
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw notReadable()
    throw wrong(
      `DATABASE_URL names a certificate or key that cannot be read (${code ?? 'unknown'})`,
      'check sslrootcert, sslcert and sslkey in DATABASE_URL, and the permissions of their files',
    )
  }
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

function wrong(message: string, hint: string): UsageError {
  return new UsageError(message, hint, 'DATABASE_URL')
}

export interface AlertConfig {
  readonly url: string
  /** Null: posts are not signed. */
  readonly secret: string | null
  /** Maximum age of the oldest pending event, in seconds. */
  readonly inboxSeconds: number
  /** Maximum time since the last backfill of a stream, in hours; null: unlimited. */
  readonly maxAgeHours: number | null
}

export const durations = {
  inboxAge: durationShape,
  maxAge: z.literal('off').or(durationShape),
} as const

interface AlertSettings {
  readonly url: string | null
  readonly secret: string | null
  readonly inboxSeconds: number | null
  /** In seconds. */
  readonly maxAge: number | 'off' | null
  readonly allowHttp: boolean
}

export function alertsOf({
  url,
  secret,
  inboxSeconds,
  maxAge,
  allowHttp,
}: AlertSettings): AlertConfig | null {
  if (url === null) return null
  return Object.freeze({
    url: checkedUrl(url, allowHttp),
    secret,
    inboxSeconds: inboxSeconds ?? 300,
    maxAgeHours: maxAge === 'off' ? null : (maxAge ?? 26 * 3_600) / 3_600,
  })
}

/** A query is as good as a path: many receivers tell their callers by it. */
function checkedUrl(text: string, allowHttp: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol))
    return fail('is not an http(s) URL', 'write it as https://host/path')
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    return fail('holds a user, a password or a fragment', 'leave them out; posts are signed')
  if (url.protocol === 'http:' && !allowHttp && !LOOPBACK.test(url.hostname))
    return fail(
      'is http, which anybody on the way can read',
      'use https, or set INTAKE_ALLOW_HTTP=1 if the network is private',
    )
  return url.href
}

function fail(what: string, hint: string): never {
  throw new UsageError(`INTAKE_ALERT_URL ${what}`, hint, 'INTAKE_ALERT_URL')
}
