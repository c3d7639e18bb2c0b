/** `intake-sync status`: rows, newest record and last run of each team and stream. */
import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { readStatus, type StreamStatus } from '../operate/status.ts'
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
      await using warehouse = await openWarehouse(context, readConfig(context.env))
      await requireMigrated(warehouse.url)
      const streams = await readStatus(warehouse.url)
      const stale =
        options.maxAge === undefined ? [] : streams.filter((each) => isStale(each, options.maxAge!))
      if (options.json)
        printJson(context, { stale: stale.map(({ team, stream }) => ({ team, stream })), streams })
      else context.stdout.write(statusText(streams, stale))
      if (stale.length > 0 || (options.maxAge !== undefined && streams.length === 0)) throw new ExitCode(4)
    })
}

function isStale({ last_success_at, lag_seconds }: StreamStatus, maxAge: number): boolean {
  return last_success_at === null || lag_seconds === null || lag_seconds > maxAge
}

function statusText(streams: readonly StreamStatus[], stale: readonly StreamStatus[]): string {
  if (streams.length === 0) return 'no team yet: run intake-sync backfill\n'
  const head = [
    'team',
    'stream',
    'rows',
    'deleted',
    'newest record',
    'last run',
    'status',
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
    each.dead_letters,
    each.drift,
  ])
  const notes = stale.map((each) => `stale: ${each.team}/${each.stream}\n`)
  return table([head, ...rows]) + notes.join('')
}

function minute(time: string | null): string {
  return time === null ? '-' : time.slice(0, 16).replace('T', ' ')
}
