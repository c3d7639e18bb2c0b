/**
 * `intake-sync api METHOD PATH`: one authenticated call, for endpoints without a command of their own.
 *
 * Invariant: stdout is the body of the answer, byte for byte, whatever its status. No log or error contains the path,
 * query or body. A write is sent once, unless it was throttled.
 */
import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { Command } from 'commander'
import type { Answer, Client, Meter, RequestOptions } from '../../api/client.ts'
import { queryOfLink } from '../../api/paths.ts'
import { readConfig, type TeamConfig } from '../../config/config.ts'
import { withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { type Context, ExitCode, oneTeam, openService } from '../context.ts'

interface Options {
  readonly query?: readonly string[]
  readonly data?: string
  readonly team?: string
  readonly apiVersion?: string
  readonly json?: true
}

export function apiCommand(context: Context, stdin: () => Readable = () => process.stdin): Command {
  return new Command('api')
    .description('send one authenticated request to the service; print the body as received')
    .argument('<method>', 'GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS, in any case')
    .argument('<path>', 'a path of the service, such as /v2/patients; may contain a query')
    .option('-q, --query <name=value>', 'a query parameter; may be repeated', queryPair)
    .option('-d, --data <json>', 'the body: JSON, @FILE, or @- for standard input; sent unchanged')
    .option('--team <name>', 'the team of the configuration to use')
    .option('--api-version <version>', 'X-API-VERSION of this call; "" sends none')
    .option('--json', 'print one JSON document: status, headers, body')
    .addHelpText('after', HELP)
    .action(async (method: string, path: string, options: Options) => {
      const answer = await call(context, stdin, method, path, options)
      print(context, answer, options)
      if (answer.status < 300) return
      const redirects = answer.status < 400 ? '; redirects are not followed' : ''
      context.stderr.write(`error: the service answered ${answer.status}${redirects}\n`)
      throw new ExitCode(1)
    })
}

const HELP = `
Exit codes: 0 for 2xx, 1 for any other answer (its body is printed too) or no
answer, 2 for wrong usage. Reads are retried when the service fails or
throttles; a write is sent once, unless it was throttled.

  intake-sync api GET /v2/patients -q search=smith
  intake-sync api PATCH /v2/patients/ID -d '{"zipcode": "00501"}'
  intake-sync api POST /v2/messages -d @message.json --json`

async function call(
  context: Context,
  stdin: () => Readable,
  given: string,
  path: string,
  options: Options,
): Promise<Answer> {
  const method = methodOf(given)
  const target = targetOf(path, options.query ?? [])
  const body = await dataOf(options.data, stdin, context.signal)
  const config = readConfig(context.env)
  const team = withVersion(oneTeam(config, options.team), options.apiVersion)
  await using client = openService(context, config, team)
  const meter: Meter = { requests: 0, throttled: 0 }
  try {
    return await anyAnswer(client, method, target.path, {
      query: target.query,
      meter,
      as: 'bytes',
      label: '(the path given)',
      ...(body === undefined ? {} : { body, contentType: 'application/json' }),
    })
  } catch (error) {
    const sent = meter.requests > meter.throttled && method !== 'GET' && method !== 'HEAD'
    if (context.signal.aborted && sent) {
      context.stderr.write(`interrupted: whether the ${method} took effect is not known\n`)
    }
    throw error
  }
}

/** The answer, whatever its status. Throws if there was none. */
async function anyAnswer(
  client: Client,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<Answer> {
  let refusal: Answer | undefined
  const onRefusal = (answer: Answer) => {
    refusal = answer
  }
  try {
    return await client.request(method, path, { ...options, onRefusal })
  } catch (error) {
    if (refusal !== undefined) return refusal
    throw error
  }
}

function withVersion(team: TeamConfig, apiVersion: string | undefined): TeamConfig {
  if (apiVersion === undefined) return team
  if (/^[\x20-\x7e]*$/.test(apiVersion)) return { ...team, apiVersion }
  throw new UsageError('--api-version cannot be sent', 'write it as v2.1', '--api-version')
}

function print({ stdout }: Context, { status, headers, body }: Answer, options: Options): void {
  const bytes = Buffer.from(body as Uint8Array)
  if (!options.json) {
    stdout.write(bytes)
    if (stdout.isTTY === true && bytes.length > 0 && bytes.at(-1) !== 0x0a) stdout.write('\n')
    return
  }
  const text = withoutMark(bytes.toString('utf8'))
  // JSON is printed as received: parsing it would change large numbers.
  const shownBody = bytes.length === 0 ? 'null' : isJson(text) ? text.trim() : JSON.stringify(text)
  const shownHeaders = JSON.stringify(withoutSecrets(headers), null, 2).replaceAll('\n', '\n  ')
  stdout.write(`{\n  "status": ${status},\n  "headers": ${shownHeaders},\n  "body": ${shownBody}\n}\n`)
}

/** Removes cookies and other headers that are named like credentials, since users store this output. */
function withoutSecrets(headers: Answer['headers']): Answer['headers'] {
  const kept = Object.entries(headers).filter(([name]) => !/cookie|auth|secret|token|api-key/.test(name))
  return Object.fromEntries(kept)
}

/**
 * The arguments of `intake-sync api` (method, path, query, body), checked before anything is sent.
 *
 * Invariant: a path stays below the configured service: no origin, no dot segments. Error messages never quote an
 * argument, since paths, queries and bodies contain health data.
 */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

export function methodOf(text: string): string {
  const method = text.toUpperCase()
  if (METHODS.includes(method)) return method
  throw new UsageError(
    `METHOD is not one of ${METHODS.join(', ')}`,
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
      'file_unreadable',
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
    throw new UsageError(
      `standard input cannot be read (${code})`,
      'give -d a file or JSON',
      '-d',
      'file_unreadable',
    )
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
