/** `intake-sync replay`: rebuilds `intake` from intake_raw, or drains stored events again. */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { parseInstant } from '../../core/time.ts'
import { type ReplaySummary, replay } from '../../reconcile/replay/replay.ts'
import { replayInbox } from '../../reconcile/replay/replay-inbox.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { alertsAtEnd } from '../backfill/alerts-at-end.ts'
import { openProgress } from '../backfill/progress.ts'
import { type Context, ExitCode, openLogger, openWarehouse, printJson } from '../context.ts'
import { streamsNamed } from '../terminal/stream-names.ts'
import { inboxDocument, inboxText, replayDocument, replayText } from './replay-report.ts'

interface Options {
  readonly streams?: string
  readonly team?: string
  readonly inbox?: true
  readonly since?: string
  readonly json?: true
}

export function replayCommand(context: Context): Command {
  return new Command('replay')
    .description('rebuild the tables from the stored payloads, without requests to the service')
    .option(
      '--streams <names>',
      `only these streams, comma-separated: ${ALL_STREAMS.map((stream) => stream.name).join(', ')}`,
    )
    .option('--team <name>', 'only this team of the warehouse')
    .option('--inbox', 'instead, drain the events stored so far again; needs --since')
    .option(
      '--since <time>',
      'with --inbox: events received at this time or later (ISO 8601, UTC without a zone)',
    )
    .option('--json', 'print one JSON document')
    .action(async (options: Options) => {
      if (options.inbox || options.since !== undefined) return await replayEvents(context, options)
      const summary = await runReplay(context, options)
      if (options.json) printJson(context, replayDocument(summary))
      else context.stdout.write(replayText(context, summary))
      const code = exitCodeOf(summary, context)
      if (code !== 0) throw new ExitCode(code)
    })
}

async function runReplay(context: Context, options: Options): Promise<ReplaySummary> {
  const config = readConfig(context.env)
  const streams = streamsNamed(options.streams, ALL_STREAMS)
  if (options.team === '') throw new UsageError('--team is empty', 'name a team of the warehouse', '--team')
  await using warehouse = await openWarehouse(context, config)
  await requireMigrated(warehouse.url)
  using progress = openProgress(context, options.team === undefined)
  const logger = openLogger(progress, config)
  await using _alerts = alertsAtEnd(context, config, { url: warehouse.url, logger })
  return await replay({
    url: warehouse.url,
    ...(options.team === undefined ? {} : { team: options.team }),
    streams,
    clock: systemClock,
    logger,
    signal: context.signal,
    onProgress: (team, stream, records) =>
      progress.update(team, stream, { fetched: records, expected: null }),
  })
}

async function replayEvents(context: Context, options: Options): Promise<void> {
  const config = readConfig(context.env)
  const since = options.since === undefined ? null : parseInstant(options.since)
  if (since === null || !options.inbox) {
    const hint = 'write it as replay --inbox --since 2026-01-31T08:00:00Z'
    throw new UsageError('--inbox and --since go together, and --since is a time', hint, '--since')
  }
  const streams = options.streams === undefined ? null : streamsNamed(options.streams, ALL_STREAMS)
  await using warehouse = await openWarehouse(context, config)
  await requireMigrated(warehouse.url)
  const summary = await replayInbox({
    url: warehouse.url,
    since,
    ...(options.team === undefined ? {} : { team: options.team }),
    streams,
    versions: new Map(config.teams.map(({ name, apiVersion }) => [name, apiVersion])),
    clock: systemClock,
    logger: openLogger(context, config),
    signal: context.signal,
    onProgress: (events, of) => {
      if (context.stderr.isTTY)
        context.stderr.write(`\r${events} of ${of} events${events === of ? '\n' : ''}`)
    },
  })
  if (options.json) printJson(context, inboxDocument(summary))
  else context.stdout.write(inboxText(summary))
  const code = exitCodeOf(summary, context)
  if (code !== 0) throw new ExitCode(code)
}

function exitCodeOf({ status }: Pick<ReplaySummary, 'status'>, context: Context): number {
  if (status === 'interrupted') return context.signal.reason === 'SIGTERM' ? 143 : 130
  if (status === 'failed') return 1
  return status === 'needs_attention' ? 4 : 0
}
