/**
 * The texts that the cell of an export may have for an answer.
 *
 * Invariant: pure; a cell agrees if it is one of these texts, whatever its line ends. The comparison covers the answer,
 * not its formatting: the specification has only one example of that.
 */

/** An answer's values in their order: choices, then free text. */
export interface AnswerValues {
  readonly values: readonly (string | null)[]
}

export interface TableCell {
  readonly row: string | null
  readonly column: string | null
  readonly value: string | null
}

/** The parts of a response for one question. */
export interface QuestionSheet {
  readonly answers: readonly AnswerValues[]
  readonly cells: readonly TableCell[]
  readonly files: readonly (string | null)[]
  readonly signers: readonly (string | null)[]
}

export const NOTHING: QuestionSheet = { answers: [], cells: [], files: [], signers: [] }

export interface ComparedColumn {
  readonly title: string
  readonly questionText: string | null
  readonly type: string | null
}

const YES = ['confirmed', 'true', 'yes', 'checked', '1', 'x']
const NO = ['', 'false', 'no', 'unchecked', '0']

/** `cell` is empty if the export has none. Null if the response lacks the texts that titles consist of. */
export function agrees(cell: string, column: ComparedColumn, sheet: QuestionSheet): boolean | null {
  const said = plain(cell)
  // A row or column without a text is in no title.
  if (column.type === 'matrix' && sheet.cells.some((each) => each.row === null || each.column === null))
    return null
  if (column.type === 'matrix') return tableTexts(column, sheet.cells).some((text) => plain(text) === said)
  if (column.type === 'file') return joinedIn(sheet.files).some((text) => plain(text) === said)
  if (column.type === 'signature') return joinedIn(sheet.signers).some((text) => plain(text) === said)
  const texts = sheet.answers.map(({ values }) => values.filter((value) => value !== null).join(', '))
  if (column.type === 'checkbox' && texts.length < 2) {
    const isTicked = YES.includes((texts[0] ?? '').toLowerCase())
    return (isTicked ? YES : NO).includes(said.trim().toLowerCase())
  }
  if (column.type === 'checkbox')
    return joinedIn(texts.map(ticked))
      .concat(joinedIn(texts))
      .some((text) => plain(text) === said)
  return joinedIn(texts).some((text) => plain(text) === said)
}

/** Several texts as one: the last, as in older exports, or all of them, with empty texts for nulls. */
function joinedIn(texts: readonly (string | null)[]): readonly string[] {
  const filled = texts.map((text) => text ?? '')
  const all = filled.some((text) => text !== '') ? [filled.join('; '), filled.join(', ')] : ['']
  return [filled.at(-1) ?? '', ...all]
}

function ticked(text: string): string {
  return text === 'true' ? 'confirmed' : ''
}

/** One cell of the table if the title names it; else the whole table, one line per cell. */
function tableTexts({ title, questionText }: ComparedColumn, cells: readonly TableCell[]): readonly string[] {
  if (title !== questionText) {
    const here = cells.filter(({ row, column }) => title === `${questionText} - ${row} - ${column}`)
    return joinedIn(here.map(({ value }) => value))
  }
  const lines = new Map<string, string>()
  for (const { row, column, value } of cells) {
    const place = `${row} / ${column}`
    if (value) lines.set(place, `${place}: ${value}`)
    else lines.delete(place)
  }
  return [[...lines.values()].join('\n')]
}

function plain(text: string): string {
  return text.replace(/\r\n?/g, '\n')
}
