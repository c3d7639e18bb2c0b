/**
 * `intake-sync erase patient ID`: removes one patient from every table.
 *
 * Invariant: without `--yes`, and without a terminal to confirm at, nothing is removed; only the confirmation
 * question shows the id.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { type Erased, type ErasurePreview, erase, previewErasure } from '../../operate/erase/erase.ts'
import type { Receipt } from '../../operate/receipts.ts'
import { warehouseTeam } from '../../warehouse/teams.ts'
import { type Context, ExitCode, openWarehouse, printJson } from '../context.ts'
import { printable } from '../printable.ts'
import { agrees, type Keyboard, paragraph } from '../terminal.ts'
import { openReceipt } from './receipt.ts'

interface Options {
  readonly yes?: true
  readonly forget?: true
  readonly unnamedRows?: true
  readonly vacuum?: true
  readonly receipt?: string
  readonly team?: string
  readonly json?: true
}

export function eraseCommand(context: Context, keyboard: () => Keyboard = () => process.stdin): Command {
  const command = new Command('erase').description('remove a person’s data on request')
  command
    .command('patient')
    .description('remove one patient, and all of their data, from every table')
    .argument('<id>', 'the service’s id of the patient (intake.patients.id)')
    .option('--yes', 'do not ask for confirmation')
    .option('--forget', 'keep no hash of the id: later records of the patient are loaded again')
    .option(
      '--unnamed-rows',
      'also remove rows of exports without a Client ID that have the patient’s name and e-mail address',
    )
    .option(
      '--vacuum',
      'rewrite the tables, so that their files contain no deleted row; each table is locked while it is rewritten, also for reading',
    )
    .option('--receipt <file>', 'write a signed receipt: what was removed, when, by which login')
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
  const preview = await previewErasure(url, patient)
  const asks = options.yes !== true
  if (asks && !(await agrees(context, keyboard(), question(id, team.name, preview)))) {
    context.stderr.write('nothing was erased\n')
    throw new ExitCode(1)
  }
  const { unnamedRows: count } = preview
  const unnamedRows =
    options.unnamedRows === true ||
    (asks && count > 0 && (await agrees(context, keyboard(), unnamedQuestion(count))))
  using receipt = openReceipt(options.receipt)
  const erased = await erase({
    ...{ url, patient, forget: options.forget === true, unnamedRows, clock: systemClock },
    onRewrite: options.vacuum === true ? (table, bytes) => reportRewrite(context, table, bytes) : null,
  })
  const document = documentOf(team.name, erased, options)
  if (receipt !== null) {
    const { login, patientHash } = erased
    const hash = options.forget === true ? null : patientHash
    const facts = { ...document, login, patient_hash: hash }
    const issued: Receipt = { kind: 'erasure', issuedAt: new Date(), facts }
    await receipt.write(url, context.version, async () => issued)
  }
  if (options.json) printJson(context, document)
  else context.stdout.write(textOf(context, erased, options))
  if (needsPerson(erased)) throw new ExitCode(4)
}

export function needsPerson({ searched, unnamedLeft, rewritten }: Erased): boolean {
  return searched.left.length > 0 || unnamedLeft > 0 || rewritten?.isComplete === false
}

export function question(
  id: string,
  team: string,
  { found, erasedBefore }: Pick<ErasurePreview, 'found' | 'erasedBefore'>,
): string {
  const parts = [...found].map(([stream, ids]) => `${ids.length} of ${stream}`)
  const before = erasedBefore ? ' (erased before)' : ''
  return `Erase patient ${printable(id)} of team ${team}${before}: ${parts.join(', ')}, their history, events and rows of exports?`
}

function unnamedQuestion(count: number): string {
  return `${count} row(s) of exports without a Client ID have the patient’s name and e-mail address. Erase them too?`
}

const MEGABYTE = 1024 * 1024

function reportRewrite({ stderr }: Context, table: string, bytes: number): void {
  stderr.write(`rewriting ${table} (${Math.ceil(bytes / MEGABYTE)} MB); it is locked until this is done\n`)
}

export function documentOf(team: string, erased: Erased, { forget }: Options): object {
  const { records, history, events, deadLetters, exportRows, statisticsRefreshed, searched, rewritten } =
    erased
  return {
    team,
    erased: { records, history, events, dead_letters: deadLetters, export_rows: exportRows },
    hash_kept: forget !== true,
    statistics_refreshed: statisticsRefreshed,
    unnamed_rows_left: erased.unnamedLeft,
    rewritten:
      rewritten === null
        ? null
        : {
            ...{ complete: rewritten.isComplete, tables: rewritten.tables, not_owned: rewritten.notOwned },
            kept_for: rewritten.keepers,
          },
    search: {
      identifiers: searched.identifiers,
      left_out: searched.leftOut,
      columns: searched.columns,
      unreadable_tables: searched.unreadable,
    },
    left: searched.left,
  }
}

export function textOf(context: Context, erased: Erased, options: Options): string {
  const { records, history, events, deadLetters, exportRows, statisticsRefreshed } = erased
  const counts = `${records} records, ${history} earlier states, ${events} events, ${deadLetters} dead letters, ${exportRows} rows of exports`
  const later =
    options.forget === true
      ? 'No hash of the id is kept: later records of the patient are loaded again.'
      : 'A keyed hash of the id is kept: later records of the patient are skipped.'
  const statistics = 'Planner statistics of Postgres may still contain some values: see docs/security.md.'
  return [
    `erased: ${counts}`,
    later,
    ...searchText(erased),
    ...(statisticsRefreshed ? [] : [statistics]),
    ...rewrittenText(erased),
    'Backups and logs of Postgres are not changed: let them expire (docs/operations.md).',
  ]
    .map((line) => paragraph(context, line, 0))
    .join('')
}

function searchText({ searched, unnamedLeft }: Erased): readonly string[] {
  const { identifiers, leftOut, columns, unreadable, left } = searched
  const unnamed = `left: ${unnamedLeft} row(s) of exports without a Client ID have the patient’s name and e-mail address; look at them, and add --unnamed-rows to erase them`
  return [
    `searched ${columns} columns for ${identifiers} identifiers${leftOut === 0 ? '' : ` (not for ${leftOut} that are short, or another patient’s too)`}: ${left.length === 0 ? 'nothing left' : `left in ${left.length} place(s)`}`,
    ...left.map(({ table, column, rows }) => `left: ${table}.${column}, ${rows} row(s)`),
    ...(unnamedLeft === 0 ? [] : [unnamed]),
    ...(unreadable.length === 0
      ? []
      : [`not searched, because the login may not read: ${unreadable.join(', ')}`]),
  ]
}

function rewrittenText({ rewritten }: Erased): readonly string[] {
  if (rewritten === null)
    return [
      'The files of the tables contain the deleted rows until Postgres uses their space again; --vacuum rewrites the files now.',
    ]
  const { tables, notOwned, keepers, isComplete } = rewritten
  if (isComplete) return [`rewrote ${tables.length} tables`]
  return [
    ...(notOwned.length === 0
      ? []
      : [`not rewritten, because the login does not own them: ${notOwned.join(', ')}`]),
    ...(keepers.length === 0
      ? []
      : [
          `the files still contain deleted rows, because other sessions could still read them: ${keepers.join(', ')}; end these, and run this again`,
        ]),
  ]
}

const HELP = `
Removes the patient, responses, packet responses, messages, rows of exports,
payloads and their history, stored events and dead letters, under every id and
address the patient ever had. Then searches every table for these. Safe while
serve or a backfill runs. Affects this warehouse only: delete the patient at the
service first. Exit 1 if the warehouse does not know the id; 4 if something is
left: places are listed, as table and column.`
