/** `intake-sync dbt init DIR`: a dbt package over the analysts' views. */
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Command } from 'commander'
import { dbtPackage } from '../../analytics/export/dbt-package.ts'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { UsageError } from '../../core/errors.ts'
import { openSession } from '../../warehouse/connect.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'

export function dbtCommand(context: Context): Command {
  const init = new Command('init')
    .description('write a dbt package over the analysts’ views')
    .argument('<folder>', 'a new or empty folder')
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action((folder: string, options: { readonly json?: true }) => run(context, folder, options))
  return new Command('dbt').description('models for dbt').addCommand(init)
}

const HELP = `
The package has sources with freshness, staging models, marts, tests of keys
and links, an exposure and metrics, described as the views are. It needs dbt
1.10.8 or later with its Postgres adapter, and a login with the role
intake_analyst.`

async function run(context: Context, folder: string, { json }: { readonly json?: true }): Promise<void> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'dbt' })
  const files = await dbtPackage(session)
  await mkdir(folder, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `the folder cannot be made (${error.code})`,
      'name another folder',
      'FOLDER',
      'file_unreadable',
    )
  })
  if ((await readdir(folder)).length > 0)
    throw new UsageError('the folder is not empty', 'name a new folder', 'FOLDER', 'folder_not_empty')
  for (const { path, text } of files) {
    const target = join(folder, path)
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, text, { flag: 'wx' })
  }
  if (json) return printJson(context, { folder, files: files.map(({ path }) => path) })
  context.stdout.write(`${files.length} files in ${folder}; next: see README.md there\n`)
}
