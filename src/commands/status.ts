/** `intake-sync status`: rows, newest record and last run of each team and stream; what waits, and whether webhooks come. */
import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { readStatus, type Status, type StreamStatus } from '../operate/status.ts'
import type { TeamStatus } from '../operate/team-status.ts'
import { STREAMS } from '../streams/catalogue.ts'
import { requireMigrated } from '../warehouse/migrate.ts'
import { type Context, ExitCode, openWarehouse, printJson } from './context.ts'
import { parseDuration } from './duration.ts'
import { table } from './table.ts'

export function statusCommand(context: Context): Command {
  return new Command('status')
    .description('rows, freshness and trouble of each team and stream')
    .option(
      '--max-age <duration>',
      'exit 4 when a stream has had no successful run for so long: 26h, 90m, 2d, or seconds',
      parseDuration,
    )
    .option('--json', 'print one JSON document')
    .action(async (options: { maxAge?: number; json?: true }) => {
      const config = readConfig(context.env)
      await using warehouse = await openWarehouse(context, config)
      await requireMigrated(warehouse.url)
      const status = await readStatus(warehouse.url, config.inboxDays)
      const { streams } = status
      const stale =
        options.maxAge === undefined ? [] : streams.filter((each) => isStale(each, options.maxAge!))
      const names = stale.map(({ team, stream }) => ({ team, stream }))
      if (options.json) printJson(context, { stale: names, ...status })
      else context.stdout.write(statusText(status, stale))
      if (stale.length > 0 || (options.maxAge !== undefined && streams.length === 0)) throw new ExitCode(4)
    })
}

/** What only webhooks bring has no runs that could be late. */
function isStale({ stream, last_success_at, lag_seconds }: StreamStatus, maxAge: number): boolean {
  if (!STREAMS.some(({ name }) => name === stream)) return false
  return last_success_at === null || lag_seconds === null || lag_seconds > maxAge
}

function statusText({ streams, teams }: Status, stale: readonly StreamStatus[]): string {
  if (streams.length === 0) return 'no team yet: run intake-sync backfill\n'
  const head = [
    'team',
    'stream',
    'rows',
    'deleted',
    'newest record',
    'last run',
    'status',
    'inbox',
    'set aside',
    'drift',
  ]
  const rows = streams.map((each) => [
    each.team,
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
  const notes = stale.map((each) => `stale: ${each.team}/${each.stream}\n`)
  return `${table([head, ...rows])}\n${teamsText(teams)}${notes.join('')}`
}

function teamsText(teams: readonly TeamStatus[]): string {
  const head = ['team', 'inbox', 'oldest', 'refetches', 'set aside', 'last event', 'webhooks', '']
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
  return table([head, ...rows])
}

function minute(time: string | null): string {
  return time === null ? '-' : time.slice(0, 16).replace('T', ' ')
}
