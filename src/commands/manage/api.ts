/**
 * `intake-sync api METHOD PATH`: one authenticated call, for endpoints without a command of their own.
 *
 * Invariant: stdout is the body of the answer, byte for byte, whatever its status. No log or error contains the path,
 * query or body. A write is sent once, unless it was throttled.
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
Exit codes: 0 for 2xx, 1 for any other answer (its body is printed too) or no answer, 2 for wrong usage.
Reads are retried when the service fails or throttles; a write is sent once, unless it was throttled.

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
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
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
