/**
 * `intake-sync privacy report`: whether what analysts and researchers see follows the rules of its tier.
 *
 * Invariant: prints names of views and columns, rules and counts; never a value. Exit code 4 where a rule is broken.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { measurePrivacy, type TierReport } from '../../analytics/privacy.ts'
import { MIN_PEOPLE } from '../../analytics/privacy-rules.ts'
import { readConfig } from '../../config/config.ts'
import { openSession } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, ExitCode, printJson, requireWarehouse } from '../context.ts'
import { table } from '../printable.ts'

export function privacyCommand(context: Context): Command {
  const report = new Command('report')
    .description('measure the rules of the limited data set and of Safe Harbor')
    .option('--json', 'print one JSON document')
    .action((options: { readonly json?: true }) => run(context, options.json === true))
  return new Command('privacy')
    .description('what analysts and researchers see, measured against its rules')
    .addHelpText('after', HELP)
    .addCommand(report)
}

async function run(context: Context, json: boolean): Promise<void> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'privacy report' })
  let tiers: readonly TierReport[]
  try {
    tiers = await measurePrivacy(session.db)
  } catch (error) {
    throw warehouseError(error)
  }
  const broken = tiers.reduce((sum, tier) => sum + tier.broken, 0)
  if (json) printJson(context, { threshold: MIN_PEOPLE, broken, tiers })
  else for (const tier of tiers) context.stdout.write(textOf(tier))
  if (broken > 0) throw new ExitCode(4)
}

export function textOf({ schema, tier, role, views, k_anonymity, broken }: TierReport): string {
  const lines = views.map(({ view, rows, columns }) => [
    view,
    rows,
    columns.length,
    columns.reduce((sum, { values_under }) => sum + (values_under ?? 0), 0),
    columns.reduce((sum, column) => sum + column.broken, 0),
  ])
  const head = ['view', 'rows', 'columns', `values of under ${MIN_PEOPLE}`, 'broken']
  const bad = views.flatMap(({ view, columns }) =>
    columns
      .filter((column) => column.broken > 0)
      .map(({ column, rule, broken: count }) => `broken: ${view}.${column}: ${rule} (${count})\n`),
  )
  const { columns, k, groups, people_in_groups_under: few } = k_anonymity
  const shared =
    columns.length === 0
      ? ''
      : `${columns.join(', ')}: ${groups} groups, the smallest of ${k ?? 0}; ${few} patients in groups of under ${MIN_PEOPLE}\n`
  const end = broken === 0 ? 'no rule is broken\n' : bad.join('')
  return `${schema} (${role}): ${tier}\n${table([head, ...lines])}${shared}${end}\n`
}

const HELP = `
Counts, for each view, the columns by rule, the values that fewer than eleven
patients share, and how many patients share a description (k-anonymity), also
of the wide views in intake_forms and intake_exports. Few patients are a figure
in the limited data set, and break a rule in intake_safe_harbor. It copies each
view into a temporary table, and may take minutes. Exit code 4 where a rule is
broken.`
