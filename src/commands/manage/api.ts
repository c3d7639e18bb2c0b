/**
 * `intake-sync api METHOD PATH`: one authenticated call, for what has no command of its own.
 *
 * Invariant: stdout is the body of the answer to the byte, whatever its status; neither path, query nor body is in a
 * log or an error. A write is sent once, unless it was throttled.
 */
import type { Readable } from 'node:stream'
import { Command } from 'commander'
import type { Answer, Client, Meter, RequestOptions } from '../../api/client.ts'
import { readConfig, type TeamConfig } from '../../config/config.ts'
import { UsageError } from '../../core/errors.ts'
import { type Context, ExitCode } from '../context.ts'
import { oneTeam, openService } from '../service.ts'
import { dataOf, isJson, methodOf, queryPair, targetOf } from './api-request.ts'

interface Options {
  readonly query?: readonly string[]
  readonly data?: string
  readonly team?: string
  readonly apiVersion?: string
  readonly json?: true
}

export function apiCommand(context: Context, stdin: () => Readable = () => process.stdin): Command {
  return new Command('api')
    .description('one authenticated call to the service; prints the body as it came')
    .argument('<method>', 'GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS, in any case')
    .argument('<path>', 'of the service, as /v2/patients; it may hold a query')
    .option('-q, --query <name=value>', 'a query parameter; may be repeated', queryPair)
    .option('-d, --data <json>', 'the body: JSON, @FILE, or @- for standard input; sent to the letter')
    .option('--team <name>', 'this team of the configuration')
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
Exit codes: 0 for 2xx, 1 for any other answer (its body is printed all the same) and for none, 2 for wrong usage.
Reads are repeated when the service fails or throttles; a write is sent once, unless it was throttled.

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
  const config = readConfig(context.env)
  const team = withVersion(oneTeam(config, options.team), options.apiVersion)
  const method = methodOf(given)
  const target = targetOf(path, options.query ?? [])
  const body = await dataOf(options.data, stdin, context.signal)
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

/** The answer, whatever its status. Throws when none came. */
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
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
  // JSON stays as it was written: parsed and printed again, its large numbers would be others.
  const held = bytes.length === 0 ? 'null' : isJson(text) ? text.trim() : JSON.stringify(text)
  const told = JSON.stringify(withoutSecrets(headers), null, 2).replaceAll('\n', '\n  ')
  stdout.write(`{\n  "status": ${status},\n  "headers": ${told},\n  "body": ${held}\n}\n`)
}

/** Cookies, and anything else that is named like a credential, stay out of what may be kept. */
function withoutSecrets(headers: Answer['headers']): Answer['headers'] {
  const kept = Object.entries(headers).filter(([name]) => !/cookie|auth|secret|token|api-key/.test(name))
  return Object.fromEntries(kept)
}
