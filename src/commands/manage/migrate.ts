/**
 * `intake-sync migrate`: brings the schemas up to date, or reports whether they are.
 *
 * Invariant: `--status` changes nothing.
 */
import { Command } from 'commander'
import { migrate, migrationStatus } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { type Context, ExitCode, openWarehouse, printJson, requireWarehouse } from '../context.ts'

export function migrateCommand(context: Context): Command {
  return new Command('migrate')
    .description('bring the schemas of the warehouse up to date')
    .option('--status', 'list applied and pending migrations, change nothing; exit 0 up to date, 4 behind')
    .option('--json', 'print one JSON document')
    .action(async (options: { status?: true; json?: true }) => {
      const config = readConfig(context.env)
      const open = options.status ? requireWarehouse : openWarehouse
      await using warehouse = await open(context, config)
      if (options.status) {
        const status = await migrationStatus(warehouse.url)
        if (options.json) printJson(context, { up_to_date: status.pending.length === 0, ...status })
        else context.stdout.write(statusText(status))
        if (status.pending.length > 0) throw new ExitCode(4)
        return
      }
      const { migrated, applied, rolesNote, notes } = await migrate(warehouse.url, config)
      for (const note of rolesNote === null ? notes : [rolesNote, ...notes])
        context.stderr.write(`note: ${note}\n`)
      if (options.json) printJson(context, { migrated, applied })
      else if (migrated.length === 0) context.stdout.write('up to date\n')
      else context.stdout.write(`${migrated.map((name) => `applied ${name}`).join('\n')}\nup to date\n`)
    })
}

function statusText({
  applied,
  pending,
}: {
  applied: readonly string[]
  pending: readonly string[]
}): string {
  const lines = [...applied.map((name) => `applied  ${name}`), ...pending.map((name) => `pending  ${name}`)]
  return `${lines.join('\n')}\n${pending.length === 0 ? 'up to date' : `behind by ${pending.length}: run intake-sync migrate`}\n`
}
