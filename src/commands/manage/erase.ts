/** `intake-sync erase patient ID`: removes one patient from every table. Only the confirmation question shows the id. */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { type Erased, type ErasurePreview, erase, previewErasure } from '../../operate/erase/erase.ts'
import { warehouseTeam } from '../../warehouse/teams.ts'
import { type Context, ExitCode, openWarehouse, printJson } from '../context.ts'
import { agrees, type Keyboard } from '../terminal/ask.ts'
import { printable } from '../terminal/printable.ts'
import { paragraph } from '../terminal/terminal.ts'

interface Options {
  readonly yes?: true
  readonly forget?: true
  readonly team?: string
  readonly json?: true
}

export function eraseCommand(context: Context, keyboard: () => Keyboard = () => process.stdin): Command {
  const command = new Command('erase').description('remove a person’s data on request')
  command
    .command('patient')
    .description('remove one patient, and all of their data, from every table')
    .argument('<id>', 'the service’s id of the patient (intake.patients.id)')
    .option('--yes', 'do not ask')
    .option('--forget', 'keep no hash of the id: later records of the patient are loaded again')
    .option('--team <name>', 'the team, if the warehouse has several')
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action((id: string, options: Options) => erasePatient(context, keyboard, id, options))
  return command
}

async function erasePatient(
  context: Context,
  keyboard: () => Keyboard,
  id: string,
  options: Options,
): Promise<void> {
  await using warehouse = await openWarehouse(context, readConfig(context.env))
  const { url } = warehouse
  await requireMigrated(url)
  const team = await warehouseTeam(url, options.team)
  const patient = { teamId: team.teamId, id }
  const sighting = await previewErasure(url, patient)
  if (options.yes !== true && !(await agrees(context, keyboard(), question(id, team.name, sighting)))) {
    context.stderr.write('nothing was erased\n')
    throw new ExitCode(1)
  }
  const removed = await erase({ url, patient, forget: options.forget === true, clock: systemClock })
  if (options.json) printJson(context, documentOf(team.name, removed, options))
  else context.stdout.write(textOf(context, removed, options))
}

function question(id: string, team: string, { found, erasedBefore }: ErasurePreview): string {
  const parts = [...found].map(([stream, ids]) => `${ids.length} of ${stream}`)
  const before = erasedBefore ? ' (erased before)' : ''
  return `Erase patient ${printable(id)} of team ${team}${before}: ${parts.join(', ')}, their history, events and rows of exports?`
}

function documentOf(team: string, removed: Erased, { forget }: Options): unknown {
  const { records, history, events, deadLetters, exportRows, statisticsRefreshed } = removed
  return {
    team,
    erased: { records, history, events, dead_letters: deadLetters, export_rows: exportRows },
    hash_kept: forget !== true,
    statistics_refreshed: statisticsRefreshed,
  }
}

function textOf(context: Context, erased: Erased, { forget }: Options): string {
  const { records, history, events, deadLetters, exportRows, statisticsRefreshed } = erased
  const counts = `${records} records, ${history} earlier states, ${events} events, ${deadLetters} dead letters, ${exportRows} rows of exports`
  const later =
    forget === true
      ? 'No hash of the id is kept: later records of the patient are loaded again.'
      : 'A keyed hash of the id is kept: later records of the patient are skipped.'
  const statistics = 'Planner statistics of Postgres may still contain some values: see docs/security.md.'
  return [
    `erased: ${counts}`,
    later,
    ...(statisticsRefreshed ? [] : [statistics]),
    'Backups and logs of Postgres are not changed: let them expire (docs/operations.md).',
  ]
    .map((line) => paragraph(context, line, 0))
    .join('')
}

const HELP = `
Removes the patient, responses, packet responses, messages, rows of exports,
payloads and their history, stored events and dead letters. Safe while serve or
a backfill runs. Affects this warehouse only: delete the patient at the service
first. Exit 1 if the warehouse does not know the id.`
