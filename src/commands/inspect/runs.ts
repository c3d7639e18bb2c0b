/**
 * `intake-sync runs`: the newest runs, their outcome and its reason.
 *
 * Invariant: only reads; where there is no warehouse, it says so and creates none.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { type Run, readRuns } from '../../operate/health/runs.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'
import { wholeNumber } from '../terminal/options.ts'
import { colored, fittedTable, formatSeconds, minute, paragraph } from '../terminal/terminal.ts'

export function runsCommand(context: Context): Command {
  return new Command('runs')
    .description('the newest runs: what they did, how they ended, and why')
    .option('--limit <number>', 'number of runs', wholeNumber, 20)
    .option('--json', 'print one JSON document')
    .action(async (options: { limit: number; json?: true }) => {
      await using warehouse = await requireWarehouse(context, readConfig(context.env))
      await requireMigrated(warehouse.url)
      const runs = await readRuns(warehouse.url, options.limit)
      if (options.json) printJson(context, { runs })
      else context.stdout.write(runs.length === 0 ? 'no run yet\n' : runsText(context, runs))
    })
}

function runsText(context: Context, runs: readonly Run[]): string {
  const head = ['run', 'kind', 'status', 'started (UTC)', 'took', 'fetched', 'changed']
  const rows = runs.map((run) => [
    run.run_id,
    run.kind,
    run.status,
    minute(run.started_at),
    run.seconds === null ? '-' : formatSeconds(run.seconds),
    sum(run, 'fetched'),
    sum(run, 'changed'),
  ])
  const [first, ...lines] = fittedTable(context, [head, ...rows], 1)
    .trimEnd()
    .split('\n')
  const texts = lines.map(
    (line, at) => `${coloured(context, line, runs[at]!)}\n${reasons(context, runs[at]!)}`,
  )
  return `${first}\n${texts.join('')}`
}

function sum({ streams }: Run, figure: 'fetched' | 'changed'): number {
  return streams.reduce((total, stream) => total + stream[figure], 0)
}

function coloured(context: Context, line: string, { status }: Run): string {
  if (status === 'failed') return colored(context, 'red', line)
  return status === 'needs_attention' || status === 'interrupted' ? colored(context, 'yellow', line) : line
}

function reasons(context: Context, { error, streams }: Run): string {
  const teams = new Set(streams.map(({ team }) => team))
  const notes = streams.flatMap(({ team, stream, note }) =>
    note === null ? [] : [`${teams.size > 1 ? `${team}/` : ''}${stream}: ${note}`],
  )
  // The error of a run is often the note of its only stream.
  const own =
    error === null || streams.some(({ note }) => note !== null && error.includes(note)) ? [] : [error]
  return [...own, ...notes].map((line) => paragraph(context, line.replace(/\s+/g, ' '), 4)).join('')
}
