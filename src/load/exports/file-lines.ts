/**
 * Records of an export's CSV → lines for COPY, by position: the first seven columns go to `export_rows`, the others to
 * `export_columns` and `export_cells`.
 *
 * Invariant: every cell that is not empty is in a line, or is null in its row with a problem that contains it. Lines are
 * the bytes of the file, as latin1; a cell that is not valid UTF-8 is rewritten.
 */
import { parseInstant } from '../../core/time.ts'
import { copyCell, openTextBuffer, type TextBuffer } from '../../normalize/lines.ts'
import type { Cell } from '../../streams/parts/cell.ts'
import { decodedCell, visibleCell } from './cell-text.ts'
import { isErasedRecord } from './erased-rows.ts'
import type { FileProblems } from './file-problems.ts'

/**
 * The first seven columns of every export (specification, section 4.5), read by position.
 *
 * Invariant: a cell that does not fit its column gives null and a problem. Times have no zone: Postgres reads them in the
 * zone of the session, which is set to the team's.
 */
export interface LeadingColumn {
  readonly name: string
  readonly title: string
  /** Undefined if the text, which is not empty, cannot be read. */
  readonly read: (text: string) => Cell | undefined
  /** Reason of the problem in that case. */
  readonly unless: string
}

export const LEADING_COLUMNS: readonly LeadingColumn[] = [
  text('client_id', 'Client ID'),
  text('first_name', 'First Name'),
  text('last_name', 'Last Name'),
  text('email', 'Email'),
  time('sent_at', 'Sent at'),
  time('completed_at', 'Completed at'),
  {
    name: 'archived',
    title: 'Archived',
    read: (cell) => ARCHIVED[cell.trim().toLowerCase()],
    unless: 'not True or False',
  },
]

const ARCHIVED: Readonly<Record<string, Cell>> = Object.assign(Object.create(null), { true: 't', false: 'f' })

function text(name: string, title: string): LeadingColumn {
  return { name, title, read: (cell) => cell, unless: '' }
}

function time(name: string, title: string): LeadingColumn {
  return { name, title, read: readTime, unless: 'not a time (YYYY-MM-DD HH:MM:SS.ffffff)' }
}

const ZONED = /[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$/

/** A time with a zone, which the specification does not have, is read as that instant. */
function readTime(cell: string): Cell | undefined {
  const trimmed = cell.trim()
  const instant = parseInstant(trimmed)
  if (instant === null) return undefined
  if (ZONED.test(trimmed)) return instant
  return instant.slice(0, -1).replace('T', ' ')
}

/** True when the header's titles are those of the specification, whatever their case and blanks. */
function areLeadingTitles(titles: readonly string[]): boolean {
  const plain = (title: string) => title.replace(/\s+/g, '').toLowerCase()
  return LEADING_COLUMNS.every(({ title }, index) => plain(titles[index] ?? '') === plain(title))
}

const LEADING = LEADING_COLUMNS.length

export interface FileLines {
  /** Rows and cells so far. */
  readonly rows: number
  readonly cells: number
  readonly rowLines: TextBuffer
  readonly cellLines: TextBuffer
  /** `storable` is false if a cell may contain text that Postgres cannot store. */
  add(cells: readonly string[], storable: boolean): void
  /** The lines of `export_columns`, after the last record. */
  columnLines(): Buffer
}

export interface FilePlace {
  readonly teamId: number
  readonly exportId: string
  readonly fromJson: boolean
  /** True for a row that must not be stored; it keeps its number. */
  readonly isErased?: (cells: readonly string[]) => boolean
}

export function openFileLines(place: FilePlace, problems: FileProblems): FileLines {
  const key = `${place.teamId}\t${utf8AsLatin1(copyCell(place.exportId))}\t`
  const rowLines = openTextBuffer('latin1')
  const cellLines = openTextBuffer('latin1')
  /** Titles beyond the leading ones, as latin1; null before the header. */
  let titles: readonly string[] | null = null
  let width = 0
  let rows = 0
  let cellCount = 0

  function readHeader(header: readonly string[], storable: boolean): void {
    const leading = header.slice(0, LEADING).map(decodedCell)
    titles = header
      .slice(LEADING)
      .map((title, index) => kept(title, storable, `header[${index + LEADING + 1}]`, 'header[]'))
    width = titles.length
    if (areLeadingTitles(leading)) return
    const shown = header.slice(0, LEADING).map((title) => visibleCell(title, place.fromJson).text)
    const reason = 'the leading columns are not titled as specified; they were read by their place'
    problems.add('header', 'header', reason, shown)
  }

  function readRow(cells: readonly string[], storable: boolean): void {
    rows += 1
    if (isErasedRecord(cells) || place.isErased?.(cells) === true) return
    let row = `${key}${rows}`
    for (let index = 0; index < LEADING; index++)
      row += `\t${leadingCell(cells[index] ?? '', index, storable)}`
    rowLines.append(`${row}\n`)
    const prefix = `${key}${rows}\t`
    let lines = ''
    for (let index = LEADING; index < cells.length; index++) {
      const cell = cells[index]!
      if (cell === '') continue
      cellCount += 1
      const value = storable ? cell : kept(cell, false, `rows[${rows}][${index + 1}]`, 'rows[][]')
      lines += `${prefix}${index + 1}\t${copyCell(value)}\n`
    }
    cellLines.append(lines)
    if (cells.length - LEADING > width) widen(cells.length)
  }

  function widen(to: number): void {
    const reason = 'a row has cells beyond the header; their columns have no title'
    problems.add(`rows[${rows}]`, 'rows[]', reason, to)
    width = to - LEADING
  }

  function leadingCell(cell: string, at: number, storable: boolean): string {
    if (cell === '') return '\\N'
    const { name, read, unless } = LEADING_COLUMNS[at]!
    const path = `rows[${rows}].${name}`
    const value = storable ? cell : kept(cell, false, path, `rows[].${name}`)
    const parsed = read(value)
    if (parsed !== undefined) return copyCell(parsed)
    problems.add(path, `rows[].${name}`, unless, decodedCell(value))
    return '\\N'
  }

  /** The cell's bytes, rewritten if Postgres cannot store them. */
  function kept(cell: string, storable: boolean, path: string, general: string): string {
    if (storable) return cell
    const { text, changed } = visibleCell(cell, place.fromJson)
    if (!changed) return cell
    problems.add(path, general, 'holds what Postgres cannot; written visibly', text)
    return utf8AsLatin1(text)
  }

  return {
    get rows() {
      return rows
    },
    get cells() {
      return cellCount
    },
    rowLines,
    cellLines,
    add(cells, storable) {
      if (titles === null) readHeader(cells, storable)
      else readRow(cells, storable)
    },
    columnLines() {
      if (titles === null) problems.add('header', 'header', 'the file is empty: it has no header', null)
      const lines = openTextBuffer('latin1')
      for (let index = 0; index < width; index++) {
        const title = titles?.[index]
        lines.append(`${key}${index + LEADING + 1}\t${title === undefined ? '\\N' : copyCell(title)}\n`)
      }
      return lines.take()
    },
  }
}

function utf8AsLatin1(text: string): string {
  return Buffer.from(text).toString('latin1')
}
