/**
 * The arguments of `intake-sync api` (method, path, query, body), checked before anything is sent.
 *
 * Invariant: a path stays below the configured service: no origin, no dot segments. Error messages never quote an
 * argument, since paths, queries and bodies contain health data.
 */
import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { queryOfLink } from '../../api/http/query.ts'
import { UsageError } from '../../core/errors.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

export function methodOf(text: string): string {
  const method = text.toUpperCase()
  if (METHODS.includes(method)) return method
  throw new UsageError(
    `METHOD is none of ${METHODS.join(', ')}`,
    'write it as: intake-sync api GET /v2/forms',
  )
}

/** Adds one `-q name=value` to the earlier pairs. */
export function queryPair(text: string, before: readonly string[] = []): readonly string[] {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError('-q is not a pair', 'write it as -q name=value', '-q')
  return [...before, `${new URLSearchParams([[text.slice(0, at), text.slice(at + 1)]])}`]
}

export interface Target {
  readonly path: string
  /** Without a question mark: the query of PATH unchanged, then the pairs. */
  readonly query: string
}

export function targetOf(given: string, pairs: readonly string[]): Target {
  const wrong = (what: string) =>
    new UsageError(`PATH ${what}`, 'write it as /v2/patients or /v2/patients?search=x')
  if (!given.startsWith('/') || given.startsWith('//')) {
    throw wrong('must begin with one slash: INTAKE_BASE_URL gives the origin')
  }
  if (/[#\\]/.test(given)) throw wrong('must not contain # or a backslash')
  const [written = ''] = given.split('?', 1)
  if (/[{}]/.test(written)) throw wrong('must contain the id itself where the documentation has {id}')
  const plain = written.replace(/%2e/gi, '.').replace(/%2f|%5c/gi, '/')
  if (plain.split('/').some((segment) => segment === '.' || segment === '..')) {
    throw wrong('must not contain a segment of dots')
  }
  const path = written.replace(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text.toWellFormed()))
  return { path, query: [queryOfLink(given), ...pairs].filter((part) => part !== '').join('&') }
}

/** The bytes of `-d` (JSON, `@file`, or `@-` for standard input), unchanged except that a byte order mark is removed. */
export async function dataOf(
  given: string | undefined,
  stdin: () => Readable,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  if (given === undefined) return undefined
  const bytes = given.startsWith('@') ? await readSource(given.slice(1), stdin, signal) : Buffer.from(given)
  const text = bytes.subarray(bytes.indexOf(BOM) === 0 ? BOM.length : 0)
  if (isUtf8(text) && isJson(text.toString('utf8'))) return text
  throw new UsageError('-d is not JSON', 'check its quotes; @FILE reads a file and @- standard input', '-d')
}

const BOM = Buffer.from('\ufeff')

async function readSource(source: string, stdin: () => Readable, signal: AbortSignal): Promise<Buffer> {
  if (source === '-') return await readAll(stdin(), signal)
  try {
    return await readFile(source)
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new UsageError(
      `-d names a file that cannot be read (${code})`,
      'check its path and permissions',
      '-d',
    )
  }
}

async function readAll(stdin: Readable, signal: AbortSignal): Promise<Buffer> {
  try {
    const pieces: Buffer[] = []
    for await (const piece of addAbortSignal(signal, stdin)) pieces.push(Buffer.from(piece))
    return Buffer.concat(pieces)
  } catch (error) {
    signal.throwIfAborted()
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new UsageError(`standard input cannot be read (${code})`, 'give -d a file or JSON', '-d')
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
