/**
 * `intake-sync verify`: compares the tables with the rows that a fresh load of the source would write.
 *
 * Invariant: changes no row without `--repair`; differences are shown by id and names of columns, never by value.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig, requireTeams } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { openBudgets } from '../../load/budgets.ts'
import { verificationFacts } from '../../operate/receipts.ts'
import { planVerify } from '../../reconcile/slices.ts'
import { type VerifySummary, verify } from '../../reconcile/verify/verify.ts'
import { ALL_STREAMS, FILES } from '../../streams/catalogue.ts'
import { type Context, exitAfter, openLogger, printJson, requireWarehouse } from '../context.ts'
import { openReceipt } from '../manage/receipt.ts'
import { streamsNamed, streamsOption, teamOption } from '../options.ts'
import { alertsAtEnd, openProgress, printPlanned } from '../run/progress.ts'
import { nextText, verifyDocument, verifyText } from './verify-report.ts'

interface Options {
  readonly streams?: string
  readonly team?: string
  readonly deep?: true
  readonly repair?: true
  readonly allowMassDelete?: true
  readonly detach?: true
  readonly receipt?: string
  readonly json?: true
}

export function verifyCommand(context: Context): Command {
  return new Command('verify')
    .description('read the service again and compare the tables with it')
    .addOption(streamsOption(ALL_STREAMS))
    .addOption(teamOption('configuration'))
    .option('--deep', 'also compare the export files with the responses, answer by answer')
    .option('--repair', 'fetch and load the records that differ')
    .option(
      '--allow-mass-delete',
      'with --repair: apply deletes even if an unusual number of records is gone',
    )
    .option('--detach', 'plan the run for workers (work, serve), print its number and end')
    .option('--receipt <file>', 'write a signed receipt: counts and hashes of both sides')
    .option('--json', 'print one JSON document')
    .action(async (options: Options) => {
      const summary = await runVerify(context, options)
      if (summary === null) return
      if (options.json) printJson(context, verifyDocument(summary))
      else {
        context.stdout.write(verifyText(context, summary))
        if (!summary.equal && !options.repair) context.stdout.write(nextText(context))
      }
      exitAfter(context, summary.status)
    })
}

async function runVerify(context: Context, options: Options): Promise<VerifySummary | null> {
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
  if (options.detach && options.receipt !== undefined) {
    const hint = 'leave out --receipt, and sign one on the page of the run in intake-sync console'
    throw new UsageError('--detach and --receipt exclude each other', hint, '--detach')
  }
  const config = readConfig(context.env)
  const teams = requireTeams(config, options.team)
  using receipt = openReceipt(options.receipt)
  await using warehouse = await requireWarehouse(context, config)
  await requireMigrated(warehouse.url)
  const repair = options.repair ? { allowMassDelete: options.allowMassDelete === true } : null
  const asked = { url: warehouse.url, teams, streams, repair, deep: options.deep === true }
  if (options.detach) {
    const document = { equal: null, streams: {}, deep: null, teams: {} }
    printPlanned(context, await planVerify(asked), options.json ? document : null)
    return null
  }
  using progress = openProgress(context, teams.length > 1)
  const logger = openLogger(progress, config)
  await using _alerts = alertsAtEnd(context, config, { url: warehouse.url, logger })
  await using budgets = openBudgets(warehouse.url)
  const summary = await verify({
    ...asked,
    budgets,
    clock: systemClock,
    random: Math.random,
    logger,
    signal: context.signal,
    version: context.version,
    onProgress: progress.update,
    isWatched: true,
  })
  await receipt?.write(warehouse.url, context.version, async ({ db }) => {
    const facts = (await verificationFacts(db, Number(summary.runId)))!
    return { kind: 'verification', issuedAt: new Date(), facts }
  })
  return summary
}
