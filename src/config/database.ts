/**
 * Checks that the Postgres library can read `DATABASE_URL`, before anything is opened: otherwise the library would throw
 * in the middle of a run, with parts of the address in its message.
 */
import pg from 'pg'
import { UsageError } from '../core/errors.ts'

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

/** Returns `url` unchanged. Throws `UsageError`, which shows no part of it. */
export function checkedDatabaseUrl(url: string): string {
  const { username, password, searchParams } = new URL(
    URL.canParse(url) ? url : url.replace('@/', '@socket/'),
  )
  if (/%(?![\da-f]{2})/i.test(username + password) || !isDecodable(username) || !isDecodable(password)) {
    throw wrong(
      'is not percent-encoded as it should be in its user or password',
      'write % as %25, @ as %40, : as %3A, / as %2F',
    )
  }
  const mode = searchParams.get('sslmode')
  if (mode !== null && !SSL_MODES.includes(mode))
    throw wrong('is not usable: its sslmode is unknown', `use one of: ${SSL_MODES.join(', ')}`)
  const client = asRead(url)
  if (!(client.port > 0 && client.port < 65_536))
    throw wrong('is not usable: the port is missing or not a number', 'correct the port')
  return url
}

function asRead(url: string): pg.Client {
  try {
    return new pg.Client({ connectionString: url }) // reads certificates, connects to nothing
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined)
      throw wrong('is not readable', 'write it as postgres://user:password@host/database')
    throw wrong(
      `is not usable: it names a certificate or key that cannot be read (${code ?? 'unknown'})`,
      'check sslrootcert, sslcert and sslkey, and the permissions of their files',
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

function wrong(what: string, hint: string): UsageError {
  return new UsageError(`DATABASE_URL ${what}`, `in DATABASE_URL, ${hint}`, 'DATABASE_URL')
}
