/**
 * `intake-sync migrate`: brings the schemas up to date, or reports whether they are.
 *
 * Invariant: `--status` and `--plan` change nothing.
 */
import { Command } from 'commander'
import { type MigrationReport, migrate, migrationStatus } from '../../analytics/migrate.ts'
import { type PlannedStatement, planMigration } from '../../analytics/plan.ts'
import { readConfig } from '../../config/config.ts'
import { type Context, ExitCode, openWarehouse, printJson, requireWarehouse } from '../context.ts'
import { fittedTable, paragraph } from '../terminal.ts'

export function migrateCommand(context: Context): Command {
  return new Command('migrate')
    .description('bring the schemas of the warehouse up to date')
    .option('--status', 'list applied and pending migrations, change nothing; exit 0 up to date, 4 behind')
    .option(
      '--plan',
      'print the pending statements with their locks, the rows of the tables and an estimate; change nothing',
    )
    .option('--json', 'print one JSON document')
    .action(async (options: { status?: true; plan?: true; json?: true }) => {
      const config = readConfig(context.env)
      const open = options.status || options.plan ? requireWarehouse : openWarehouse
      await using warehouse = await open(context, config)
      if (options.status) {
        const status = await migrationStatus(warehouse.url)
        if (options.json) printJson(context, { up_to_date: status.pending.length === 0, ...status })
        else context.stdout.write(statusText(status))
        if (status.pending.length > 0) throw new ExitCode(4)
        return
      }
      if (options.plan) {
        const plan = await planMigration(warehouse.url)
        if (options.json) printJson(context, { statements: plan })
        else context.stdout.write(planText(context, plan))
        return
      }
      const { migrated, applied, ...report } = await migrate(warehouse.url, config)
      context.stderr.write(notesText(report))
      if (options.json) printJson(context, { migrated, applied })
      else context.stdout.write(`${migrated.map((name) => `applied ${name}\n`).join('')}up to date\n`)
    })
}

/** Also where the output is JSON. */
export function notesText({ rolesNote, notes }: Pick<MigrationReport, 'rolesNote' | 'notes'>): string {
  return [...(rolesNote === null ? [] : [rolesNote]), ...notes].map((note) => `note: ${note}\n`).join('')
}

/** Statements that touch nothing that is there are counted only. */
export function planText(context: Context, plan: readonly PlannedStatement[]): string {
  if (plan.length === 0) return 'up to date\n'
  const names = [...new Set(plan.map(({ migration }) => migration))]
  const rows = plan
    .filter(({ lock }) => lock !== 'none')
    .map(({ migration, lock, table, statement, ...effect }) => [
      migration.slice(0, 4),
      lock,
      table ?? '-',
      rowsText(effect),
      statement.length > 80 ? `${statement.slice(0, 79)}…` : statement,
    ])
  const head = ['', 'lock', 'on', 'rows', 'statement']
  const others = plan.length - rows.length
  const batched = new Set(plan.flatMap(({ migration, in_batches }) => (in_batches ? [migration] : [])))
  const apart = [...batched].join(', ')
  const how =
    apart === ''
      ? 'all in one transaction'
      : `one transaction before and after each migration that runs in batches (${apart})`
  const seconds = plan.reduce((sum, each) => sum + (each.in_batches ? 0 : each.seconds), 0)
  return [
    `${paragraph(context, `${names.length} migration(s), ${how}: ${names.join(', ')}`, 0)}\n`,
    rows.length === 0 ? '' : `${fittedTable(context, [head, ...rows], 4)}\n`,
    paragraph(context, `${others} statement(s) lock no existing table.`, 0),
    paragraph(context, `Estimate: the locks are held for about ${seconds} s.`, 0),
    paragraph(context, 'After them, views whose definition changed are made again.', 0),
  ].join('')
}

type Effect = Pick<PlannedStatement, 'rows' | 'is_long' | 'in_batches' | 'seconds'>

function rowsText({ rows, is_long, in_batches, seconds }: Effect): string {
  if (rows === null || !is_long) return rows === null ? '-' : `${rows}`
  return `${rows}, all read or written${in_batches ? ' in batches' : `: ${seconds} s`}`
}

export function statusText({
  applied,
  pending,
}: {
  applied: readonly string[]
  pending: readonly string[]
}): string {
  const lines = [...applied.map((name) => `applied  ${name}`), ...pending.map((name) => `pending  ${name}`)]
  return `${lines.join('\n')}\n${pending.length === 0 ? 'up to date' : `behind by ${pending.length}: run intake-sync migrate`}\n`
}
