/**
 * `intake-sync backfill`: one run over every stream, or over the selected streams.
 *
 * Invariant: a mistake in the options is reported before anything is opened; `--dry-run` writes nothing and migrates
 * nothing.
 */
import { Command } from 'commander'
import type { Logger } from 'pino'
import { migrate, migrationStatus } from '../../analytics/migrate.ts'
import { type Config, readConfig, requireTeams } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { parseInstant } from '../../core/time.ts'
import { type BackfillSummary, backfill } from '../../extract/backfill.ts'
import type { BackfillOptions, TeamSource } from '../../extract/backfill-options.ts'
import { planBackfill } from '../../extract/planned-backfill.ts'
import { openBudgets } from '../../load/budgets.ts'
import { removeSettledBodies } from '../../load/erased-dead-letters.ts'
import { settleDeliveries } from '../../operate/health/silence-signs.ts'
import { openRetention, prune } from '../../operate/serve/retention.ts'
import { ALL_STREAMS, STREAMS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, exitAfter, openLogger, openWarehouse, printJson } from '../context.ts'
import { streamsNamed, streamsOption, teamOption } from '../options.ts'
import { backfillDocument, backfillText } from './backfill-report.ts'
import { alertsAtEnd, openProgress, printPlanned } from './progress.ts'

interface Options {
  readonly streams?: string
  readonly team?: string
  readonly since?: string
  readonly full?: true
  readonly dryRun?: true
  readonly detach?: true
  readonly allowMassDelete?: true
  readonly json?: true
}

export function backfillCommand(context: Context): Command {
  return new Command('backfill')
    .description('load the service’s records into the warehouse, once')
    .addOption(streamsOption(STREAMS))
    .addOption(teamOption('configuration'))
    .option('--since <date>', 'read responses submitted since this date instead of since the checkpoint')
    .option('--full', 'ignore the checkpoints: read everything, and look for deletes')
    .option('--dry-run', 'fetch and report what would change; write nothing')
    .option('--allow-mass-delete', 'apply deletes even if an unusual number of records is gone')
    .option('--detach', 'leave the run to workers (work, serve), print its number and end')
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const summary = await runBackfill(context, options)
      if (summary === null) return
      if (options.json) printJson(context, backfillDocument(summary))
      else {
        context.stdout.write(backfillText(context, summary))
        if (summary.status === 'succeeded' || summary.status === 'needs_attention')
          context.stdout.write(`next: intake-sync ${options.dryRun ? 'backfill' : 'psql --as analyst'}\n`)
      }
      exitAfter(context, summary.status)
    })
}

async function runBackfill(context: Context, options: Options): Promise<BackfillSummary | null> {
  const streams = streamsOf(options.streams)
  const since = options.since === undefined ? null : parseInstant(options.since)
  if (options.since !== undefined && since === null) {
    throw new UsageError('--since is not a date', 'write it as YYYY-MM-DD', '--since')
  }
  if (options.detach && options.dryRun) {
    throw new UsageError('--detach and --dry-run exclude each other', 'leave out one of them', '--detach')
  }
  const config = readConfig(context.env)
  const teams = requireTeams(config, options.team)
  const dry = options.dryRun === true
  await using warehouse = await openWarehouse(context, config)
  const behind = (await migrationStatus(warehouse.url)).pending.length > 0
  const mayMigrate = (behind || config.analyticsKey !== null) && !dry
  const notes = mayMigrate ? (await migrate(warehouse.url, config)).notes : []
  using progress = openProgress(context, teams.length > 1)
  const logger = openLogger(progress, config)
  for (const note of notes) logger.warn(note)
  await using budgets = dry ? null : openBudgets(warehouse.url)
  const asked: BackfillOptions = {
    url: warehouse.url,
    ...(budgets === null ? {} : { budgets }),
    teams,
    streams,
    allowMassDelete: options.allowMassDelete === true,
    window: {
      lookbackDays: config.lookbackDays,
      sweepDays: config.sweepDays,
      full: options.full === true,
      since,
    },
    dry,
    migrated: !behind || !dry,
    clock: systemClock,
    random: Math.random,
    logger,
    signal: context.signal,
    version: context.version,
    onProgress: progress.update,
  }
  if (options.detach) {
    printPlanned(context, await planBackfill(asked), options.json ? { streams: {}, teams: {} } : null)
    return null
  }
  const place = { url: warehouse.url, logger }
  await using _alerts = alertsAtEnd(context, dry ? { ...config, alerts: null } : config, place)
  const summary = await backfill(asked)
  if (!dry) await removeExpired(warehouse.url, { ...config, teams: teams.map(({ name }) => name) }, logger)
  return summary
}

/** The end of a run waits at most this long for retention. */
const PRUNE_MS = 60_000

/** Installations without `serve` have no other clean-up. The next run retries a removal that fails. */
async function removeExpired(
  url: string,
  config: Omit<Config, 'teams'> & { readonly teams: readonly string[] },
  logger: Logger,
): Promise<void> {
  const now = new Date()
  try {
    await using session = await openRetention(url)
    const { db } = session
    await removeSettledBodies(db, { days: config.inboxDays, now })
    await prune({ ...config, db, now, forMs: PRUNE_MS })
    await settleDeliveries(db, config.inboxDays, config.teams)
  } catch (error) {
    logger.warn({ code: warehouseError(error).code }, 'expired rows could not be removed')
  }
}

function streamsOf(names: string | undefined): readonly Stream[] {
  if (names === undefined) return STREAMS
  const unlisted = streamsNamed(names, ALL_STREAMS).find(({ list }) => list === null)
  if (unlisted !== undefined) {
    throw new UsageError(
      `backfill cannot read the stream ${unlisted.name}: the service has no list of its records`,
      `remove ${unlisted.name} from --streams; intake-sync serve loads it from webhooks`,
      '--streams',
      'unknown_stream',
    )
  }
  return streamsNamed(names, STREAMS)
}

const HELP = `
Requests of a team are limited by INTAKE_RATE_LIMIT (20/s, 1000/min); without
it, the service's limit is learned from its answers. Workers (work, serve)
help with a run, and finish it if this process is killed; they take the
settings of the service from their own environment.`

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
