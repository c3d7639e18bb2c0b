/**
 * `intake-sync console`: the operator's page, and the link with which its first reader logs in.
 *
 * Invariant: the link is printed on stdout only, never logged.
 */
import { userInfo } from 'node:os'
import { Command, InvalidArgumentError } from 'commander'
import type { Logger } from 'pino'
import { requireMigrated } from '../../analytics/migrate.ts'
import { type Config, readConfig } from '../../config/config.ts'
import { openConsole } from '../../console/server.ts'
import type { Breakage } from '../../console/shared.ts'
import { systemClock } from '../../core/clock.ts'
import { type Context, openLogger, openWarehouse, printJson } from '../context.ts'
import { allChecks } from '../inspect/doctor.ts'
import { shownSettings } from '../manage/config.ts'

interface Options {
  readonly port?: number
  readonly json?: true
}

export function consoleCommand(context: Context): Command {
  return new Command('console')
    .description('serve the operator’s page: state, runs, dead letters, verification')
    .option('--port <number>', 'its port, overrides INTAKE_CONSOLE_PORT; 0 for any free one', port)
    .option('--json', 'once ready, print one JSON document with the address and the login link')
    .addHelpText('after', HELP)
    .action((options: Options) => runConsole(context, options))
}

const HELP = `
Prints a link that logs one person in, once, as an operator. Operators make
links for others in the console, with the role operator or viewer. It listens on
INTAKE_CONSOLE_HOST (127.0.0.1) and INTAKE_CONSOLE_PORT (9091); behind a proxy,
INTAKE_CONSOLE_URL is the address that browsers show. serve --console opens it
in the process of serve.`

async function runConsole(context: Context, options: Options): Promise<void> {
  const config = readConfig(context.env)
  await using warehouse = await openWarehouse(context, config)
  await requireMigrated(warehouse.url)
  const logger = openLogger(context, config)
  const place = { url: warehouse.url, logger, ...(options.port === undefined ? {} : { port: options.port }) }
  await using opened = await openConfiguredConsole(context, config, place)
  if (options.json) printJson(context, { url: opened.url, link: opened.link })
  else context.stdout.write(consoleText(opened))
  await new Promise<void>((resolve) => {
    if (context.signal.aborted) resolve()
    else context.signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

export interface OpenedConsole extends AsyncDisposable {
  readonly url: string
  /** Logs one person in, once. */
  readonly link: string
}

interface Place {
  /** Of the warehouse. */
  readonly url: string
  readonly logger: Logger
  readonly port?: number
  /** URL of the admin server of this process. */
  readonly admin?: string
  readonly breakages?: readonly Breakage[]
}

/** Opens the console that the configuration describes. */
export async function openConfiguredConsole(
  context: Context,
  config: Config,
  { url, logger, port: chosen = config.consolePort, admin = adminOf(config), breakages = [] }: Place,
): Promise<OpenedConsole> {
  const login = loginName()
  const linkRole = config.consoleValues ? 'steward' : 'operator'
  const opened = await openConsole({
    ...{ url, logger, login, host: config.consoleHost, port: chosen, publicUrl: config.consoleUrl },
    proxy: config.consoleProxy,
    linkRole,
    teams: config.teams,
    inboxDays: config.inboxDays,
    retention: config,
    metricsUrl: `${admin}/metrics`,
    maxAgeHours: config.alerts?.maxAgeHours ?? MAX_AGE_HOURS,
    settings: shownSettings(context),
    checks: (signal) => allChecks({ ...context, signal }),
    onLink: (link) => context.stdout.write(`log in, once: ${link}\n`),
    breakages,
    clock: systemClock,
    random: Math.random,
    version: context.version,
  })
  const link = opened.link(login, linkRole)
  return { url: opened.url, link, [Symbol.asyncDispose]: opened.close }
}

/** Where `serve` with this configuration listens, as seen from this machine. */
export function adminOf({ adminHost, adminPort }: Config): string {
  const host = adminHost === '0.0.0.0' ? '127.0.0.1' : adminHost === '::' ? '::1' : adminHost
  return `http://${host.includes(':') ? `[${host}]` : host}:${adminPort}`
}

export function consoleText({ url, link }: Pick<OpenedConsole, 'url' | 'link'>): string {
  return `console at ${url}\nlog in, once: ${link}\n`
}

/** A stream is stale after this time without a successful run, as in alerts. */
const MAX_AGE_HOURS = 26

/** The name of the person who started the process, for the audit. */
function loginName(): string {
  try {
    return userInfo().username.replace(/[^\w.@+-]/g, '_') || 'operator'
  } catch {
    return 'operator'
  }
}

function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new InvalidArgumentError('Use a port from 0 to 65535.')
}
