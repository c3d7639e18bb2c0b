/**
 * `intake-sync status`: rows, newest record and last run of each team and stream; pending work and webhook health.
 *
 * Invariant: changes nothing, and needs no credentials; shows counts and times, no data of a record.
 */
import { Command } from 'commander'
import { waitingText } from '../../analytics/classify.ts'
import { requireMigrated } from '../../analytics/migrate.ts'
import { type Config, readConfig } from '../../config/config.ts'
import { IntakeError } from '../../core/errors.ts'
import { WAITING_SLICES_HINT, waitingSlicesText } from '../../operate/health/runs.ts'
import { readStatus, type Status, type StreamStatus } from '../../operate/health/status.ts'
import type { TeamStatus } from '../../operate/health/team-status.ts'
import { STREAMS } from '../../streams/catalogue.ts'
import { type Context, ExitCode, type OpenWarehouse, printJson, requireWarehouse } from '../context.ts'
import { parseDuration } from '../options.ts'
import { fittedTable, minute, paragraph, widthOf } from '../terminal.ts'

export function statusCommand(context: Context): Command {
  return new Command('status')
    .description('rows, freshness and problems of each team and stream')
    .option(
      '--max-age <duration>',
      'exit 4 if a stream had no successful run within this time: 26h, 90m, 2d, or seconds',
      parseDuration,
    )
    .option('--json', 'print one JSON document')
    .action(async (options: { maxAge?: number; json?: true }) => {
      const config = readConfig(context.env)
      await using warehouse = await existing(context, config, options.json === true)
      await requireMigrated(warehouse.url)
      const status = await readStatus(warehouse.url, config.inboxDays)
      const { streams } = status
      const stale =
        options.maxAge === undefined ? [] : streams.filter((each) => isStale(each, options.maxAge!))
      const names = stale.map(({ team, stream }) => ({ team, stream }))
      if (options.json) printJson(context, { stale: names, ...status })
      else context.stdout.write(statusText(context, status, stale))
      if (stale.length > 0 || (options.maxAge !== undefined && streams.length === 0)) throw new ExitCode(4)
    })
}

/** Where there is no warehouse yet, that is the status: exit code 4, and nothing is created. */
async function existing(context: Context, config: Config, json: boolean): Promise<OpenWarehouse> {
  try {
    return await requireWarehouse(context, config)
  } catch (error) {
    if (!(error instanceof IntakeError) || error.code !== 'no_warehouse') throw error
    const { code, message, hint = null } = error
    if (json)
      printJson(context, {
        stale: [],
        streams: [],
        teams: [],
        slices_waiting: [],
        error: { code, message, hint },
      })
    else context.stdout.write(paragraph(context, message, 0) + paragraph(context, `hint: ${hint}`, 2))
    throw new ExitCode(4)
  }
}

/** A stream that only webhooks load has no runs, and so cannot be stale. */
export function isStale({ stream, last_success_at, lag_seconds }: StreamStatus, maxAge: number): boolean {
  if (!STREAMS.some(({ name }) => name === stream)) return false
  return last_success_at === null || lag_seconds === null || lag_seconds > maxAge
}

export function statusText(context: Context, status: Status, stale: readonly StreamStatus[]): string {
  const { streams, teams, slices_waiting } = status
  if (streams.length === 0) return 'no team yet: run intake-sync backfill\n'
  // On a terminal, the table below already names a single team.
  const ofTeam = (cell: string) => (teams.length > 1 || widthOf(context) === null ? [cell] : [])
  const head = [
    ...ofTeam('team'),
    'stream',
    'rows',
    'deleted',
    'newest record',
    'last run',
    'status',
    'inbox',
    'dead letters',
    'drift',
  ]
  const rows = streams.map((each) => [
    ...ofTeam(each.team),
    each.stream,
    each.rows,
    each.deleted,
    minute(each.newest_record_at),
    minute(each.last_run_at),
    each.last_run_status ?? '-',
    each.inbox,
    each.dead_letters,
    each.drift,
  ])
  const waiting = teams.filter(({ questions_waiting }) => questions_waiting.length > 0)
  const notes = [
    ...waiting.map(({ team, questions_waiting }) =>
      paragraph(context, `${team}: ${waitingText(questions_waiting)}`, 0),
    ),
    ...slices_waiting.map((each) => paragraph(context, `${each.team}: ${waitingSlicesText(each)}`, 0)),
    ...(slices_waiting.length === 0 ? [] : [paragraph(context, `hint: ${WAITING_SLICES_HINT}`, 2)]),
    ...stale.map((each) => `stale: ${each.team}/${each.stream}\n`),
  ]
  const stream = head.indexOf('stream')
  const spare = SPARE.map((at) => at + stream)
  const shown = fittedTable(context, [head, ...rows], stream, spare)
  return `${shown}\n${teamsText(context, teams)}${notes.join('')}`
}

/** Columns to drop on a narrow terminal, in this order, as offsets from the column of the stream. */
const SPARE = [2, 6, 8, 3, 7]

function teamsText(context: Context, teams: readonly TeamStatus[]): string {
  const head = ['team', 'inbox', 'oldest', 'refetches', 'dead letters', 'last event', 'webhooks', '']
  if (widthOf(context) !== null) head.pop()
  const rows = teams.map(({ team, inbox, refetches, webhooks }) => [
    team,
    inbox.pending,
    inbox.oldest_pending_seconds === null ? '-' : `${Math.round(inbox.oldest_pending_seconds)} s`,
    refetches,
    inbox.dead_letters,
    minute(webhooks.last_event_at),
    webhooks.verdict,
    webhooks.reason,
  ])
  const shown = fittedTable(context, [head, ...rows.map((row) => row.slice(0, head.length))], 0, [3])
  if (widthOf(context) === null) return shown
  const reasons = teams.map(({ team, webhooks: { reason } }) => paragraph(context, `${team}: ${reason}`, 0))
  return shown + reasons.join('')
}
