/**
 * What the cell of an export should say of an answer, in each way that exports write it.
 *
 * Invariant: pure; a cell agrees when it is one of these texts, whatever the kind of its line ends. Only what a person
 * answered is compared, not how a file writes it: the specification shows no more of that than one example.
 */

/** An answer's values in their order: choices, then free text. */
export interface Answered {
  readonly values: readonly (string | null)[]
}

export interface TableCell {
  readonly row: string | null
  readonly column: string | null
  readonly value: string | null
}

/** What a response holds about one question. */
export interface QuestionSheet {
  readonly answers: readonly Answered[]
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

/** `cell` is the empty text where the export has none. Null where the response does not tell what a title names. */
export function agrees(cell: string, column: ComparedColumn, sheet: QuestionSheet): boolean | null {
  const said = plain(cell)
  // A row or column that is told by an id or a number alone is in no title.
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

/** Several as one text: the last, as older exports do, or all of them, one left out keeping its place. */
function joinedIn(texts: readonly (string | null)[]): readonly string[] {
  const told = texts.map((text) => text ?? '')
  const all = told.some((text) => text !== '') ? [told.join('; '), told.join(', ')] : ['']
  return [told.at(-1) ?? '', ...all]
}

function ticked(text: string): string {
  return text === 'true' ? 'confirmed' : ''
}

/** One cell of the table, where the title says which; else the whole of it, a line a cell. */
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
