/**
 * `intake-sync replay`: rebuilds `intake` from intake_raw, or drains stored events again.
 *
 * Invariant: sends no request to the service.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { parseInstant } from '../../core/time.ts'
import { type ReplayReport, type ReplaySummary, replay } from '../../reconcile/replay.ts'
import { type InboxReplayed, replayInbox } from '../../reconcile/replay-inbox.ts'
import { planReplay } from '../../reconcile/slices.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { type Context, exitAfter, openLogger, printJson, requireWarehouse } from '../context.ts'
import { streamsNamed, streamsOption, teamOption } from '../options.ts'
import { table } from '../printable.ts'
import { fittedTable, paragraph } from '../terminal.ts'
import { alertsAtEnd, openProgress, printPlanned } from './progress.ts'

interface Options {
  readonly streams?: string
  readonly team?: string
  readonly inbox?: true
  readonly since?: string
  readonly detach?: true
  readonly json?: true
}

export function replayCommand(context: Context): Command {
  return new Command('replay')
    .description('rebuild the tables from the stored payloads, without requests to the service')
    .addOption(streamsOption(ALL_STREAMS))
    .addOption(teamOption('warehouse'))
    .option('--inbox', 'instead, drain the events stored so far again; needs --since')
    .option(
      '--since <time>',
      'with --inbox: events received at this time or later (ISO 8601, UTC without a zone)',
    )
    .option('--detach', 'plan the run for workers (work, serve), print its number and end')
    .option('--json', 'print one JSON document')
    .action(async (options: Options) => {
      if (options.inbox || options.since !== undefined) return await replayEvents(context, options)
      const summary = await runReplay(context, options)
      if (summary === null) return
      if (options.json) printJson(context, replayDocument(summary))
      else context.stdout.write(replayText(context, summary))
      exitAfter(context, summary.status)
    })
}

async function runReplay(context: Context, options: Options): Promise<ReplaySummary | null> {
  const streams = streamsNamed(options.streams, ALL_STREAMS)
  if (options.team === '') throw new UsageError('--team is empty', 'name a team of the warehouse', '--team')
  const config = readConfig(context.env)
  await using warehouse = await requireWarehouse(context, config)
  await requireMigrated(warehouse.url)
  if (options.detach) {
    const planned = await planReplay(warehouse.url, streams, options.team)
    printPlanned(context, planned, options.json ? { streams: {}, teams: {} } : null)
    return null
  }
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
  const since = options.since === undefined ? null : parseInstant(options.since)
  if (since === null || !options.inbox) {
    const hint = 'write it as replay --inbox --since 2026-01-31T08:00:00Z'
    throw new UsageError('--inbox and --since go together, and --since is a time', hint, '--since')
  }
  if (options.detach)
    throw new UsageError('--detach and --inbox exclude each other', 'leave out one of them', '--detach')
  const streams = options.streams === undefined ? null : streamsNamed(options.streams, ALL_STREAMS)
  const config = readConfig(context.env)
  await using warehouse = await requireWarehouse(context, config)
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
  exitAfter(context, summary.status)
}

/** The report of a replay, as text and as the JSON document of `--json`. */
type Figures = Omit<ReplayReport, 'seconds' | 'note'> & {
  readonly seconds: number
  readonly note: string | null
}

/** `streams` sums up all teams; `teams` has each team separately. */
export function replayDocument(summary: ReplaySummary): unknown {
  const streams: Record<string, Figures> = {}
  for (const team of summary.teams) {
    for (const { stream, report } of team.streams) streams[stream] = added(streams[stream], report)
  }
  const teams = summary.teams.map((team) => [
    team.name,
    { streams: Object.fromEntries(team.streams.map(({ stream, report }) => [stream, report])) },
  ])
  return {
    run_id: Number(summary.runId),
    status: summary.status,
    streams,
    teams: Object.fromEntries(teams),
  }
}

function added(sum: Figures | undefined, more: Figures): Figures {
  if (sum === undefined) return more
  const worst = (['failed', 'interrupted', 'needs_attention'] as const).find((status) =>
    [sum.status, more.status].includes(status),
  )
  return {
    status: worst ?? 'succeeded',
    records: sum.records + more.records,
    rewritten: sum.rewritten + more.rewritten,
    removed: sum.removed + more.removed,
    refused: sum.refused + more.refused,
    seconds: Math.round((sum.seconds + more.seconds) * 1000) / 1000,
    note: [sum.note, more.note].filter((note) => note !== null).join('; ') || null,
  }
}

export function replayText(context: Context, summary: ReplaySummary): string {
  const several = summary.teams.length > 1
  const head = ['stream', 'records', 'rewritten', 'removed', 'seconds']
  const rows = summary.teams.flatMap((team) =>
    team.streams.map(({ stream, report }) => [
      several ? `${team.name}/${stream}` : stream,
      report.records,
      report.rewritten,
      report.removed,
      Number(report.seconds.toFixed(1)),
    ]),
  )
  const notes = summary.teams.flatMap((team) =>
    team.streams.flatMap(({ stream, report }) =>
      report.note === null ? [] : [`${several ? `${team.name}/` : ''}${stream}: ${report.note}`],
    ),
  )
  const end = [`run ${summary.runId}: ${summary.status.replace('_', ' ')}`, ...notes]
  const shown =
    rows.length === 0 ? 'no team yet: run intake-sync backfill\n' : fittedTable(context, [head, ...rows], 0)
  return `${shown}\n${end.map((line) => paragraph(context, line, 0)).join('')}`
}

export function inboxDocument({ runId, status, events, done, dead, waiting }: InboxReplayed): unknown {
  return { run_id: Number(runId), status, inbox: { events, done, dead, waiting } }
}

export function inboxText({ runId, status, events, done, dead, waiting }: InboxReplayed): string {
  const rows = table([
    ['events', 'loaded', 'dead letters', 'to be retried'],
    [events, done, dead, waiting],
  ])
  return `${rows}\nrun ${runId}: ${status.replace('_', ' ')}\n`
}
