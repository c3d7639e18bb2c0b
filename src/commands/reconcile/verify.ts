/** `intake-sync verify`: compares the tables with the rows that a fresh load of the source would write. */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig, requireTeams } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { type VerifySummary, verify } from '../../reconcile/verify/verify.ts'
import { ALL_STREAMS, FILES } from '../../streams/catalogue.ts'
import { alertsAtEnd } from '../backfill/alerts-at-end.ts'
import { openProgress } from '../backfill/progress.ts'
import { type Context, ExitCode, openLogger, openWarehouse, printJson } from '../context.ts'
import { streamsNamed } from '../terminal/stream-names.ts'
import { verifyDocument, verifyText } from './verify-report.ts'

interface Options {
  readonly streams?: string
  readonly team?: string
  readonly deep?: true
  readonly repair?: true
  readonly allowMassDelete?: true
  readonly json?: true
}

export function verifyCommand(context: Context): Command {
  return new Command('verify')
    .description('read the service again and compare the tables with it')
    .option(
      '--streams <names>',
      `only these streams, comma-separated: ${ALL_STREAMS.map((stream) => stream.name).join(', ')}`,
    )
    .option('--team <name>', 'only this team of the configuration')
    .option('--deep', 'also compare the export files with the responses, answer by answer')
    .option('--repair', 'fetch and load the records that differ')
    .option(
      '--allow-mass-delete',
      'with --repair: apply deletes even if an unusual number of records is gone',
    )
    .option('--json', 'print one JSON document')
    .action(async (options: Options) => {
      const summary = await runVerify(context, options)
      if (options.json) printJson(context, verifyDocument(summary))
      else context.stdout.write(verifyText(context, summary))
      const code = exitCodeOf(summary, context)
      if (code !== 0) throw new ExitCode(code)
    })
}

async function runVerify(context: Context, options: Options): Promise<VerifySummary> {
  const config = readConfig(context.env)
  const teams = requireTeams(config, options.team)
  const streams = streamsNamed(options.streams, ALL_STREAMS)
  if (options.allowMassDelete && !options.repair) {
    throw new UsageError(
      '--allow-mass-delete has no effect without --repair',
      'add --repair',
      '--allow-mass-delete',
    )
  }
  const names = streams.map(({ name }) => name)
  const compared = [FILES.reading.rowsOf, FILES.name]
  if (options.deep && !compared.every((name) => names.includes(name))) {
    throw new UsageError(
      `--deep needs the streams ${compared.join(' and ')}`,
      'name both in --streams',
      '--deep',
    )
  }
  await using warehouse = await openWarehouse(context, config)
  await requireMigrated(warehouse.url)
  using progress = openProgress(context, teams.length > 1)
  const logger = openLogger(progress, config)
  await using _alerts = alertsAtEnd(context, config, { url: warehouse.url, logger })
  return await verify({
    url: warehouse.url,
    teams,
    streams,
    repair: options.repair ? { allowMassDelete: options.allowMassDelete === true } : null,
    deep: options.deep === true,
    clock: systemClock,
    random: Math.random,
    logger,
    signal: context.signal,
    version: context.version,
    onProgress: progress.update,
  })
}

function exitCodeOf({ status }: VerifySummary, context: Context): number {
  if (status === 'interrupted') return context.signal.reason === 'SIGTERM' ? 143 : 130
  if (status === 'failed') return 1
  return status === 'needs_attention' ? 4 : 0
}
