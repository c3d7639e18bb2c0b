/**
 * Writes a view or a query to files, with a manifest of their contents.
 *
 *     cursor ─► small cells left out ─► a file, or one for each day ─► manifest.json
 *
 * Invariant: the folder contains only files of this export, and `manifest.json` is written last: a folder without it
 * is not complete. All rows are of one snapshot. With a least cell, no row shows a smaller count.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from '../../core/errors.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type Format, WRITERS } from './formats.ts'
import { beginSnapshot, type Column, openRows, type Query, type Row } from './query.ts'

export interface ExportOptions {
  readonly from: Query['from']
  readonly format: Format
  /** A folder that is missing or empty. */
  readonly folder: string
  /** One file per day (UTC) of this column; null for one file. */
  readonly byDay: string | null
  /** Rows in which a count is above 0 and below this are left out; null for all rows. */
  readonly minCell: number | null
  /** Columns with counts; undefined for those whose name and type say so. */
  readonly countColumns: readonly string[] | undefined
  /** Added to the manifest. */
  readonly about: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal
}

export interface Manifest {
  readonly format: Format
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  /** Rows in all files. */
  readonly rows: number
  /** Null without a least cell. */
  readonly suppressed: {
    readonly min_cell: number
    readonly columns: readonly string[]
    readonly rows: number
  } | null
  readonly files: readonly ExportedFile[]
}

export interface ExportedFile {
  /** Relative to the folder. */
  readonly file: string
  readonly rows: number
  readonly bytes: number
  readonly sha256: string
}

export async function exportRows(session: Session, options: ExportOptions): Promise<Manifest> {
  const { from, format, folder, byDay, minCell, signal } = options
  await prepareFolder(folder)
  await beginSnapshot(session)
  const { columns, portions } = await openRows(session, {
    from,
    dayColumn: byDay,
    asJson: format === 'ndjson',
  })
  const counts = minCell === null ? [] : countColumns(columns, options.countColumns)
  let suppressed = 0
  async function* kept(): AsyncGenerator<Row> {
    for await (const portion of portions) {
      signal.throwIfAborted()
      for (const row of portion) {
        if (counts.some((place) => isSmall(row.values[place] ?? null, minCell!))) suppressed += 1
        else yield row
      }
    }
  }
  const files: ExportedFile[] = []
  for await (const { file, rows } of partsOf(kept(), byDay, format)) {
    let count = 0
    async function* counted(): AsyncGenerator<Row> {
      for await (const row of rows) {
        count += 1
        yield row
      }
    }
    const path = join(folder, file)
    await mkdir(join(path, '..'), { recursive: true, mode: 0o700 })
    await WRITERS[format](path, columns, counted())
    files.push({ file, rows: count, ...(await digestOf(path)) })
  }
  await session.client.query('commit')
  const manifest: Manifest = {
    format,
    columns: columns.map(({ name, type }) => ({ name, type })),
    rows: files.reduce((sum, file) => sum + file.rows, 0),
    suppressed:
      minCell === null
        ? null
        : { min_cell: minCell, columns: counts.map((place) => columns[place]!.name), rows: suppressed },
    files,
  }
  await writeManifest(folder, { ...options.about, ...manifest })
  return manifest
}

interface Part {
  readonly file: string
  readonly rows: AsyncIterable<Row>
}

/**
 * One part, also without rows; or one for each day, in folders that query engines read as a column. Each part must be read
 * to its end before the next one is taken.
 */
async function* partsOf(
  rows: AsyncGenerator<Row>,
  byDay: string | null,
  format: Format,
): AsyncGenerator<Part> {
  if (byDay === null) return yield { file: `data.${format}`, rows }
  let next = await rows.next()
  async function* ofDay(day: string | null): AsyncGenerator<Row> {
    while (next.done !== true && next.value.day === day) {
      yield next.value
      next = await rows.next()
    }
  }
  while (next.done !== true) {
    const { day } = next.value
    yield { file: `day=${day ?? '__HIVE_DEFAULT_PARTITION__'}/data.${format}`, rows: ofDay(day) }
  }
}

export async function prepareFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `--out: the folder cannot be made (${error.code})`,
      'name another folder',
      '--out',
      'file_unreadable',
    )
  })
  if ((await readdir(folder)).length > 0)
    throw new UsageError(
      '--out: the folder is not empty',
      'name a new folder for each export',
      '--out',
      'folder_not_empty',
    )
}

/** Names that mean a count where the type is a number without fraction. */
const COUNT_NAME =
  /^(?:n|count|total|rows|people|patients|responses|messages|answers|cells|started|submitted|skipped|open|archived)$|(?:^|_)(?:count|total|n)$|^(?:n|count|number_of|responses|messages|patients|answers)_/

function countColumns(columns: readonly Column[], names: readonly string[] | undefined): readonly number[] {
  const unknown = names?.find((name) => !columns.some((column) => column.name === name))
  if (unknown !== undefined)
    throw new UsageError(
      `--count-column: there is no column "${unknown}"`,
      `the columns are: ${columns.map(({ name }) => name).join(', ')}`,
      '--count-column',
    )
  const isCount = ({ name, type }: Column) =>
    names === undefined
      ? /^(?:smallint|integer|bigint|numeric)$/.test(type) && COUNT_NAME.test(name)
      : names.includes(name)
  const places = [...columns.keys()].filter((place) => isCount(columns[place]!))
  if (places.length > 0) return places
  throw new UsageError(
    '--min-cell: no column is a count',
    'name one with --count-column, or group the rows in a query (--sql) and count them',
    '--min-cell',
  )
}

function isSmall(text: string | null, minCell: number): boolean {
  const count = Number(text ?? 0)
  return !(count === 0 || count >= minCell)
}

export async function digestOf(path: string): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return { bytes: (await stat(path)).size, sha256: hash.digest('hex') }
}

export async function writeManifest(folder: string, manifest: unknown): Promise<void> {
  const draft = join(folder, 'manifest.json.part')
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(`${JSON.stringify(manifest, null, 2)}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(draft, join(folder, 'manifest.json'))
}
