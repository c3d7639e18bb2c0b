/** `intake-sync instruments`: the scored questionnaires behind intake_analytics.scores. */
import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { importInstrument, listInstruments, removeInstrument } from '../../analytics/instruments.ts'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'
import { fittedTable } from '../terminal.ts'

interface Options {
  readonly json?: true
}

export function instrumentsCommand(context: Context): Command {
  const list = named('list', 'the instruments, and how many forms ask each').action((options: Options) =>
    withSession(context, (session) => printAll(context, session, options)),
  )
  const add = named('import', 'add an instrument, or replace one that was imported')
    .argument('<file>', 'its definition: see docs/instruments.md')
    .action((file: string, { json }: Options) =>
      withSession(context, async ({ db }) => {
        const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
          throw new UsageError(
            `the file cannot be read (${error.code})`,
            'check its path',
            'FILE',
            'file_unreadable',
          )
        })
        const { instrument, items } = await importInstrument(db, withoutMark(text))
        if (json) printJson(context, { instrument, items: items.length })
        else context.stdout.write(`${instrument} is stored; see instruments list for the forms that ask it\n`)
      }),
    )
  const remove = named('remove', 'remove an instrument that was imported')
    .argument('<name>', 'its short name')
    .action((name: string, { json }: Options) =>
      withSession(context, async ({ db }) => {
        const removed = await removeInstrument(db, name)
        if (!removed)
          throw new UsageError(
            'there is no instrument of this name',
            'see intake-sync instruments list',
            'NAME',
          )
        if (json) printJson(context, { instrument: name, removed })
        else context.stdout.write('removed\n')
      }),
    )
  const group = new Command('instruments').description('scored questionnaires, such as PHQ-9')
  for (const command of [list, add, remove]) group.addCommand(command)
  return group
}

async function printAll(context: Context, { db }: Session, { json }: Options): Promise<void> {
  const instruments = await listInstruments(db)
  if (json) return printJson(context, { instruments })
  const rows = instruments.map((each) => [
    each.instrument,
    String(each.items),
    String(each.forms),
    each.is_built_in ? 'built in' : 'imported',
    each.title,
  ])
  context.stdout.write(
    fittedTable(context, [['instrument', 'items', 'forms', 'origin', 'title'], ...rows], 4),
  )
}

function named(name: string, description: string): Command {
  return new Command(name).description(description).option('--json', 'print one JSON document')
}

async function withSession(context: Context, work: (session: Session) => Promise<void>): Promise<void> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'instruments' })
  try {
    await work(session)
  } catch (error) {
    throw warehouseError(error)
  }
}
