/**
 * `intake-sync serve`: receives webhooks, loads them into the tables, and runs scheduled backfills until a signal.
 *
 * Invariant: lists the disabled parts, with reasons, once at the start. On a signal it finishes started work and exits
 * with 0. A failed scheduled run does not end the process.
 */
import { Command, InvalidArgumentError } from 'commander'
import type { Logger } from 'pino'
import { migrate } from '../../analytics/migrate.ts'
import { type Config, isSchedule, readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { type BackfillSummary, backfill } from '../../extract/backfill.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import { openServe, type Serving } from '../../operate/serve/serve.ts'
import { STREAMS } from '../../streams/catalogue.ts'
import { type Context, openLogger, openWarehouse, printJson } from '../context.ts'
import type { OpenedConsole } from './console.ts'

interface Options {
  readonly cron?: string
  readonly ingest: boolean
  readonly drain: boolean
  readonly schedule: boolean
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

function scheduleOf(config: Config, { cron, schedule }: Options): string | null {
  if (!schedule || cron === 'off') return null
  return cron ?? config.cron
}

/** The parts that do not run, with reasons. */
function offOf(config: Config, options: Options): readonly Off[] {
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
ingesters behind a load balancer (--no-schedule), and separate drains; each
scheduled backfill runs in one of them only. The schedule uses the time zone
TZ. Health and metrics are on INTAKE_ADMIN_HOST and INTAKE_ADMIN_PORT:
/healthz, /readyz (200 when events can be stored; ?part=drain, schedule or
work checks the others), /metrics.`

/** A part that does not run. */
interface Off {
  readonly part: 'ingest' | 'drain' | 'refetches' | 'schedule'
  readonly why: string
}

interface Ready extends Pick<Serving, 'ingest' | 'admin' | 'next'> {
  /** Names of the teams whose webhooks are received. */
  readonly teams: readonly string[]
}

/** The output of `serve` once it is ready, for `--json`. Like the text below, it contains no secret. */
function servingDocument(
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

function servingText({ ingest, admin, next, teams }: Ready, off: readonly Off[]): string {
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

/** The scheduled backfill of `serve`: the same as the command without options, reported in the log. */
export interface Place {
  /** Of the warehouse. */
  readonly url: string
  readonly config: Pick<Config, 'lookbackDays' | 'sweepDays'>
  readonly logger: Logger
  readonly version: string
}

/** Throws if the run cannot start, for example because another run holds the lock. */
export async function scheduledBackfill(
  { url, config, logger, version }: Place,
  teams: readonly TeamSource[],
  signal: AbortSignal,
  onTeamEnded: (team: string) => void = () => {},
): Promise<void> {
  logger.info({ teams: teams.map(({ name }) => name) }, 'scheduled backfill started')
  const summary = await backfill({
    ...{ url, teams, streams: STREAMS, allowMassDelete: false, dry: false, migrated: true },
    isScheduled: true,
    window: { lookbackDays: config.lookbackDays, sweepDays: config.sweepDays, full: false, since: null },
    ...{ clock: systemClock, random: Math.random, logger, signal, version },
    onProgress: () => {},
    isWatched: true,
    onTeamEnded,
  })
  const level = summary.status === 'succeeded' ? 'info' : 'warn'
  logger[level](figuresOf(summary), `scheduled backfill: ${summary.status.replace('_', ' ')}`)
}

function figuresOf({ runId, teams }: BackfillSummary): Record<string, unknown> {
  const sum = (figure: 'fetched' | 'changed' | 'deleted' | 'deadLetters') =>
    teams.flatMap(({ streams }) => streams).reduce((total, { report }) => total + report[figure], 0)
  return {
    ...{ run: runId, fetched: sum('fetched'), changed: sum('changed'), deleted: sum('deleted') },
    dead_letters: sum('deadLetters'),
  }
}
