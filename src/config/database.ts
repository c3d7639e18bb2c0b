/**
 * Checks that the Postgres library can read `DATABASE_URL`.
 *
 * Invariant: a connection string that passes does not make the library throw in the middle of a run; an error shows
 * no part of it.
 */
import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { UsageError } from '../core/errors.ts'
import { LOOPBACK } from './team.ts'

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

/** Both verify the server's certificate: the library reads verify-ca as verify-full. */
const VERIFYING: ReadonlySet<string | null> = new Set(['verify-ca', 'verify-full'])

/**
 * Returns `url` unchanged. Throws `UsageError`, which shows no part of it, also where health data would leave this machine
 * over a connection whose server is not verified, unless `allowInsecure`.
 */
export function checkedDatabaseUrl(url: string, allowInsecure: boolean): string {
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
const PORT = /^(\w+:\/\/(?:[^/?#]*@)?(?:\[[^\]]*\]|[^/?#:@]*)):[^/?#]*/

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
