/**
 * `intake-sync export VIEW|--sql FILE`: rows of the warehouse as files, read with the role of a reader.
 *
 * Invariant: what the reader may not see is not exported, whoever the login is.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Command, InvalidArgumentError, Option } from 'commander'
import { exportRows } from '../../analytics/export/export.ts'
import { exportFhir } from '../../analytics/export/fhir.ts'
import { FORMATS, type Format } from '../../analytics/export/formats.ts'
import type { Query } from '../../analytics/export/query.ts'
import { readConfig } from '../../config/config.ts'
import { withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { openSession } from '../../warehouse/connect.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'
import { wholeNumber } from '../options.ts'
import { READERS, type Reader, takeRole } from '../reader.ts'

interface Options {
  readonly sql?: string
  readonly format: Format | 'fhir-ndjson'
  readonly out: string
  readonly as: Reader
  readonly byDay?: string
  readonly minCell?: number
  readonly countColumn?: readonly string[]
  readonly team?: string
  readonly json?: true
}

export function exportCommand(context: Context): Command {
  return new Command('export')
    .description('write a view, or the result of a query, to files')
    .argument('[view]', 'a view: answers, or with its schema')
    .option('--sql <file>', 'in place of a view: a file with one select')
    .addOption(
      new Option('--format <format>', 'format of the files')
        .choices([...FORMATS, 'fhir-ndjson'])
        .default('csv'),
    )
    .requiredOption('--out <folder>', 'a new or empty folder')
    .addOption(
      new Option('--as <reader>', 'the role whose rights apply')
        .choices(Object.keys(READERS))
        .default('analyst'),
    )
    .option('--by-day <column>', 'one file per day (UTC) of this date or time')
    .option(
      '--min-cell <count>',
      'leave out rows in which a count is from 1 to one less than this',
      leastCell,
    )
    .option(
      '--count-column <name>',
      'a column with counts, for --min-cell; may be repeated',
      (name, before: string[] = []) => [...before, name],
    )
    .option('--team <name>', 'with --format fhir-ndjson: the team, where the reader sees several')
    .option('--json', 'print the manifest as one JSON document')
    .addHelpText('after', HELP)
    .action((view: string | undefined, options: Options, command: Command) => {
      const { format } = options
      if (format !== 'fhir-ndjson') return run(context, view, { ...options, format })
      const names = ['sql', 'byDay', 'minCell', 'countColumn', ...(options.as === 'clinical' ? [] : ['as'])]
      const given = names.some((name) => command.getOptionValueSource(name) === 'cli')
      return runFhir(context, view !== undefined || given, options)
    })
}

const HELP = `
manifest.json lists the files with their rows, bytes and SHA-256, the columns
with their types, and the rows that --min-cell left out. It is written last.
Rows are of one snapshot; files are readable by their owner only.

--min-cell treats a whole number as a count if the name of its column says so
(count, patients, responses_submitted …). It leaves out whole rows. It cannot
know which sums the rows add up to: do not publish both.

--format fhir-ndjson writes patients, forms and responses as FHIR R4, as a bulk
data export does: one file for each type of resource. It names people, and is
read with the role intake_clinical.

Examples:
  intake-sync export answers --format parquet --out answers
  intake-sync export responses --by-day created_at --format ndjson --out days
  intake-sync export --sql docs/queries/07-weekly-volume.sql \\
    --min-cell 11 --out weekly
  intake-sync export --format fhir-ndjson --out fhir`

/** Options of rows, which FHIR resources do not have. */
type RowOptions = Options & { readonly format: Format }

async function run(context: Context, view: string | undefined, options: RowOptions): Promise<void> {
  if (options.team !== undefined)
    throw new UsageError(
      '--team belongs to --format fhir-ndjson',
      'leave it out: rows have their team_id',
      '--team',
    )
  const { format, out, as, byDay = null, minCell = null, countColumn } = options
  const { from, about } = await sourceOf(view, options)
  const config = readConfig(context.env)
  await using warehouse = await requireWarehouse(context, config)
  await using session = await openSession({ url: warehouse.url, purpose: 'export' })
  const { role, path } = READERS[as]
  await takeRole(context, session, as)
  await session.client.query(`set search_path = ${path}, public`)
  const manifest = await exportRows(session, {
    ...{ from, format, folder: out, byDay, minCell, countColumns: countColumn, signal: context.signal },
    about: { exported_at: new Date().toISOString(), version: context.version, role, ...about },
  })
  if (options.json) return printJson(context, manifest)
  const files = `${manifest.files.length} ${manifest.files.length === 1 ? 'file' : 'files'}`
  const { suppressed } = manifest
  const left = suppressed === null ? '' : `; left out for small counts: ${suppressed.rows}`
  context.stdout.write(`${manifest.rows} rows in ${files}${left}\n`)
}

async function runFhir(context: Context, hasOthers: boolean, options: Options): Promise<void> {
  if (hasOthers)
    throw new UsageError(
      '--format fhir-ndjson takes no view, no other reader and no option of rows',
      'give it --out, and --team where there are several',
      '--format',
    )
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await using session = await openSession({ url: warehouse.url, purpose: 'export' })
  await takeRole(context, session, 'clinical')
  const manifest = await exportFhir(session, {
    ...{ folder: options.out, team: options.team, signal: context.signal },
    about: { exported_at: new Date().toISOString(), version: context.version, role: READERS.clinical.role },
  })
  if (options.json) return printJson(context, manifest)
  const counts = manifest.output.map(({ type, count }) => `${type}: ${count}`).join(', ')
  context.stdout.write(`${counts}\n`)
}

interface Source {
  readonly from: Query['from']
  readonly about: Readonly<Record<string, string>>
}

async function sourceOf(view: string | undefined, { sql: file, as }: Options): Promise<Source> {
  if ((view === undefined) === (file === undefined))
    throw new UsageError('name either a view or a file with --sql', 'see intake-sync export --help')
  if (view !== undefined) {
    const [schema, name] = view.includes('.') ? view.split('.', 2) : [READERS[as].schema, view]
    return { from: { schema: schema!, view: name! }, about: { view: `${schema}.${name}` } }
  }
  const text = await readFile(file!, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `--sql: the file cannot be read (${error.code})`,
      'check its path',
      '--sql',
      'file_unreadable',
    )
  })
  const sha256 = createHash('sha256').update(text).digest('hex')
  return { from: { text: withoutMark(text).replace(SEMICOLON_AT_END, '') }, about: { sql_sha256: sha256 } }
}

/** A semicolon with nothing but comments after it. */
const SEMICOLON_AT_END = /;(?:\s|--[^\n]*(?:\n|$))*$/

function leastCell(text: string): number {
  const count = wholeNumber(text)
  if (count < 2) throw new InvalidArgumentError('Use a whole number from 2.')
  return count
}
