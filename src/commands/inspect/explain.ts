/** `intake-sync explain STREAM ID`: the states of a row, their origins, and why the current one won. */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { UsageError } from '../../core/errors.ts'
import { explain } from '../../operate/explain/explain.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { warehouseTeam } from '../../warehouse/teams.ts'
import { type Context, openWarehouse, printJson } from '../context.ts'
import { explainDocument, explainText } from './explain-text.ts'

interface Options {
  readonly team?: string
  readonly showValues?: true
  readonly json?: true
}

export function explainCommand(context: Context): Command {
  return new Command('explain')
    .description('where a row came from: each version, its origin, and why it won or lost')
    .argument('<stream>', ALL_STREAMS.map(({ name }) => name).join(', '))
    .argument('<id>', 'the service’s id of the record')
    .option('--team <name>', 'the team, if the warehouse has several')
    .option('--show-values', 'print the old and new values, which are health data')
    .option('--json', 'print one JSON document')
    .action(async (name: string, id: string, options: Options) => {
      const stream = streamCalled(name)
      const config = readConfig(context.env)
      await using warehouse = await openWarehouse(context, config)
      await requireMigrated(warehouse.url)
      const team = await warehouseTeam(warehouse.url, options.team)
      const version = config.teams.find((each) => each.name === team.name)?.apiVersion ?? 'v2.1'
      const explained = await explain(warehouse.url, { teamId: team.teamId, stream, id }, version)
      const about = { team: team.name, stream: stream.name, id, withValues: options.showValues === true }
      if (options.json) printJson(context, explainDocument(explained, about))
      else context.stdout.write(explainText(context, explained, about))
    })
}

function streamCalled(name: string): Stream {
  const stream = ALL_STREAMS.find((each) => each.name === name)
  if (stream !== undefined) return stream
  const known = ALL_STREAMS.map((each) => each.name).join(', ')
  throw new UsageError(`there is no stream "${name}"`, `use one of: ${known}`, 'stream')
}
