/**
 * `intake-sync serve`: receives webhooks, loads them into the tables, and runs scheduled backfills until a signal.
 *
 * Invariant: lists the disabled parts, with reasons, once at the start. On a signal it finishes started work and exits
 * with 0. A failed scheduled run does not end the process.
 */
import { Command, InvalidArgumentError } from 'commander'
import { migrate, requireMigrated } from '../../analytics/migrate.ts'
import { type Config, isSchedule, readConfig, requireTeams } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { SLICES_AT_ONCE } from '../../extract/work.ts'
import { openServe, type Serving } from '../../operate/serve/serve.ts'
import { type Context, openLogger, openWarehouse, printJson } from '../context.ts'
import { wholeNumber } from '../options.ts'
import { scheduledBackfill } from './backfill.ts'
import type { OpenedConsole } from './console.ts'

export interface Options {
  readonly cron?: string
  readonly ingest: boolean
  readonly drain: boolean
  readonly schedule: boolean
  readonly work: boolean
  readonly console?: true
  readonly json?: true
}

export function serveCommand(context: Context): Command {
  return new Command('serve')
    .description('receive webhooks, load them, and run scheduled backfills until stopped')
    .option('--cron <expression>', 'schedule of backfills, overrides INTAKE_CRON: five fields, or off', cron)
    .option('--no-ingest', 'do not receive webhooks')
    .option('--no-drain', 'leave received events to another process')
    .option('--no-schedule', 'do not run scheduled backfills')
    .option('--no-work', 'leave slices of runs to other processes')
    .option('--console', 'serve the console too: see intake-sync console')
    .option('--json', 'once ready, print one JSON document with the addresses')
    .addHelpText('after', HELP)
    .action((options: Options) => runServe(context, options))
}

async function runServe(context: Context, options: Options): Promise<void> {
  const config = readConfig(context.env)
  const logger = openLogger(context, config)
  await using warehouse = await openWarehouse(context, config)
  for (const note of (await migrate(warehouse.url, config)).notes) logger.warn(note)
  if (context.signal.aborted) return
  const schedule = scheduleOf(config, options)
  const place = { url: warehouse.url, version: context.version }
  await using serving = await openServe({
    ...place,
    ingestTeams: config.ingestTeams,
    teams: config.teams,
    ingest: options.ingest ? { host: config.webhookHost, port: config.webhookPort } : null,
    trustedProxies: config.trustedProxies,
    drain: options.drain,
    cron: schedule,
    cronMissed: config.cronMissed,
    work: options.work ? {} : null,
    admin: { host: config.adminHost, port: config.adminPort },
    inboxDays: config.inboxDays,
    retention: config,
    encryptionKey: config.encryptionKey,
    alerts: config.alerts,
    backfill: (teams, signal, onTeamEnded) =>
      scheduledBackfill({ ...place, config, logger }, teams, signal, onTeamEnded),
    clock: systemClock,
    random: Math.random,
    logger,
  })
  // Loaded only where it is wanted: it would make every start slower.
  const page = options.console ? await import('./console.ts') : null
  await using opened =
    (await page?.openConfiguredConsole(context, config, {
      ...{ url: warehouse.url, logger, admin: serving.admin },
    })) ?? null
  const ready = { ...serving, teams: config.ingestTeams.map(({ name }) => name) }
  const off = offOf(config, options)
  if (options.json) printJson(context, servingDocument(ready, off, opened))
  else context.stdout.write(`${servingText(ready, off)}${opened === null ? '' : page?.consoleText(opened)}`)
  await aborted(context.signal)
  logger.info('stopping: accepted events are stored; current batches will finish')
}

export function scheduleOf(config: Config, { cron, schedule }: Options): string | null {
  if (!schedule || cron === 'off') return null
  return cron ?? config.cron
}

/** The parts that do not run, with reasons. */
export function offOf(config: Config, options: Options): readonly Off[] {
  const off: Off[] = []
  const without = config.ingestTeams
    .map(({ name }) => name)
    .filter((name) => !config.teams.some((team) => team.name === name))
  const noAccess = `no API credentials for ${without.join(', ')}`
  if (!options.ingest) off.push({ part: 'ingest', why: '--no-ingest' })
  if (!options.drain) off.push({ part: 'drain', why: '--no-drain' })
  else if (without.length > 0) off.push({ part: 'refetches', why: noAccess })
  if (!options.schedule) off.push({ part: 'schedule', why: '--no-schedule' })
  else if (scheduleOf(config, options) === null) {
    off.push({ part: 'schedule', why: options.cron === 'off' ? '--cron off' : 'INTAKE_CRON is off' })
  } else if (without.length > 0) off.push({ part: 'schedule', why: noAccess })
  if (!options.work) off.push({ part: 'work', why: '--no-work' })
  else if (without.length > 0) off.push({ part: 'work', why: noAccess })
  return off
}

function cron(text: string): string {
  if (isSchedule(text)) return text
  throw new InvalidArgumentError('Use a cron expression of five fields, such as "0 2 * * *", or off.')
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

const HELP = `
Migrates the database first. Several processes may serve one warehouse:
ingesters behind a load balancer (--no-schedule), separate drains, and
workers (intake-sync work); each scheduled backfill runs in one of them only.
The schedule uses the time zone TZ. Health and metrics are on
INTAKE_ADMIN_HOST and INTAKE_ADMIN_PORT: /healthz, /readyz (200 when events
can be stored; ?part=drain, schedule or work checks the others), /metrics.`

/** A part that does not run. */
interface Off {
  readonly part: 'ingest' | 'drain' | 'refetches' | 'schedule' | 'work'
  readonly why: string
}

interface Ready extends Pick<Serving, 'ingest' | 'admin' | 'next'> {
  /** Names of the teams whose webhooks are received. */
  readonly teams: readonly string[]
}

/** The output of `serve` once it is ready, for `--json`. Like the text below, it contains no secret. */
export function servingDocument(
  { ingest, admin, next, teams }: Ready,
  off: readonly Off[],
  opened: OpenedConsole | null,
): unknown {
  return {
    webhooks: ingest === null ? null : `${ingest}/webhooks`,
    teams: ingest === null ? {} : Object.fromEntries(teams.map((team) => [team, addressOf(ingest, team)])),
    admin,
    next_backfill: next?.toISOString() ?? null,
    off: Object.fromEntries(off.map(({ part, why }) => [part, why])),
    ...(opened === null ? {} : { console: opened.url, console_link: opened.link }),
  }
}

export function servingText({ ingest, admin, next, teams }: Ready, off: readonly Off[]): string {
  const [only, ...others] = teams
  const several = others.length > 0
  const lines = [
    ingest === null || several ? [] : [`ready: webhooks of ${only} at ${ingest}/webhooks`],
    ingest === null || !several
      ? []
      : teams.map((team) => `webhooks of ${team} at ${addressOf(ingest, team)}`),
    [`${ingest === null || several ? 'ready: ' : ''}health and metrics at ${admin}`],
    next === null ? [] : [`next backfill at ${next.toISOString()}`],
    off.map(({ part, why }) => `off: ${part} (${why})`),
  ]
  return `${lines.flat().join('\n')}\n`
}

function addressOf(ingest: string, team: string): string {
  return `${ingest}/webhooks/${encodeURIComponent(team)}`
}

interface WorkerOptions {
  readonly concurrency: number
  readonly teams?: string
  readonly json?: true
}

/** `serve` without webhooks, drain and schedule. */
export function workCommand(context: Context): Command {
  return new Command('work')
    .description(
      'execute slices of backfills and of runs with --detach until stopped, together with other workers',
    )
    .option('--concurrency <number>', 'streams that it reads at once', wholeNumber, SLICES_AT_ONCE)
    .option('--teams <names>', 'only streams of these teams of the configuration, comma-separated')
    .option('--json', 'once ready, print one JSON document')
    .addHelpText('after', WORK_HELP)
    .action((options: WorkerOptions) => runWork(context, options))
}

async function runWork(context: Context, { concurrency, teams: only, json }: WorkerOptions): Promise<void> {
  const config = readConfig(context.env)
  const names = only?.split(',').map((name) => name.trim())
  const teams = [...new Set(names?.flatMap((name) => requireTeams(config, name)) ?? requireTeams(config))]
  const logger = openLogger(context, config)
  await using warehouse = await openWarehouse(context, config)
  await requireMigrated(warehouse.url)
  const open = (port: number) =>
    openServe({
      ...{ url: warehouse.url, version: context.version, clock: systemClock, random: Math.random, logger },
      ...{ teams, ingestTeams: teams, ingest: null, drain: false, cron: null, work: { concurrency } },
      ...{ inboxDays: config.inboxDays, retention: config, alerts: config.alerts, encryptionKey: null },
      admin: { host: config.adminHost, port },
      backfill: async () => {},
    })
  await using working = await open(config.adminPort).catch(async (error) => {
    // Several workers of one machine, or one next to `serve`.
    if (!(error instanceof UsageError) || error.code !== 'port_unusable') throw error
    logger.warn(`${error.message}: health and metrics are on another port`)
    return await open(0)
  })
  const ready = { admin: working.admin, teams: teams.map(({ name }) => name), concurrency }
  if (json) printJson(context, ready)
  else
    context.stdout.write(
      `ready: executes runs of ${ready.teams.join(', ')}; health and metrics at ${ready.admin}\n`,
    )
  await aborted(context.signal)
  logger.info('stopping: current batches will finish; other workers go on with the rest')
}

const WORK_HELP = `
Any number of workers, on any hosts, share the runs of one warehouse; serve is
a worker too. What a worker that ends, or does not answer, has begun is taken
over by the others. intake-sync runs show lists who executes what. A worker
opens INTAKE_ADMIN_PORT for health and metrics, or another port where that one
is in use.`
