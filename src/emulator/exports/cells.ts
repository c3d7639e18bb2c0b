/**
 * The text of one cell of an export, from the answers of the response.
 *
 * Invariant: a cell without an answer is empty. Of several answers, as in a repeated block, the flat style shows all,
 * joined with a semicolon and a space, a missing answer as an empty text; the legacy style shows the last.
 */
import { groupBy } from '../shapes/group.ts'
import type { Answer, Answers, ESignature, MatrixCell, ResponseFile } from '../world/records.ts'
import type { Column, Style } from './columns.ts'

/** The answers of a response by question id. */
export interface Sheet {
  readonly answers: ReadonlyMap<string | undefined, readonly Answer[]>
  readonly cells: ReadonlyMap<string, readonly MatrixCell[]>
  readonly files: ReadonlyMap<string, readonly ResponseFile[]>
  readonly signatures: ReadonlyMap<string, readonly ESignature[]>
}

export function sheetOf({ answers, matrix_cells, files, e_signatures }: Answers): Sheet {
  return {
    answers: groupBy(answers, ({ question }) => question?.id),
    cells: groupBy(matrix_cells, ({ question }) => question.id),
    files: groupBy(files, ({ question }) => question.id),
    signatures: groupBy(e_signatures, ({ question }) => question.id),
  }
}

export function cellOf(column: Column, sheet: Sheet, style: Style): string {
  const { id, question_type } = column.question
  switch (question_type.question_type) {
    case 'matrix': {
      const cells = sheet.cells.get(id) ?? []
      const { cell } = column
      if (cell === undefined) return linesOf(cells)
      const here = cells.filter((one) => one.row.id === cell.row && one.column.id === cell.column)
      return joined(
        here.map(({ answer_text }) => answer_text ?? ''),
        style,
      )
    }
    case 'file': {
      const names = (sheet.files.get(id) ?? []).map(({ name }) => name)
      return column.repeated ? joined(names, style) : names.join(', ')
    }
    case 'signature':
      return joined(
        (sheet.signatures.get(id) ?? []).map(({ signer_name }) => signer_name),
        style,
      )
    case 'checkbox':
      return joined(
        (sheet.answers.get(id) ?? []).map(({ answer_text }) => tick(answer_text, style)),
        style,
      )
    default:
      return joined((sheet.answers.get(id) ?? []).map(textOf), style)
  }
}

function joined(values: readonly string[], style: Style): string {
  if (style === 'legacy' || values.length < 2) return values.at(-1) ?? ''
  return values.some((value) => value !== '') ? values.join('; ') : ''
}

/** The chosen texts, then the free text. */
function textOf({ answer_text, answer_choices }: Answer): string {
  if (answer_choices === null || answer_choices.length === 0) return answer_text ?? ''
  const chosen = answer_choices.map(({ question_choice }) => question_choice.text_value)
  return (answer_text ? [...chosen, answer_text] : chosen).join(', ')
}

function tick(text: string | null, style: Style): string {
  if (style === 'flat') return text === 'true' ? 'confirmed' : ''
  if (text === 'true') return 'True'
  return text === 'false' ? 'False' : ''
}

/** A table in one cell: a line per non-empty cell; of a cell with several answers, the last. */
function linesOf(cells: readonly MatrixCell[]): string {
  const lines = new Map<string, string>()
  for (const { row, column, answer_text } of cells) {
    const place = `${row.id}/${column.id}`
    if (answer_text) lines.set(place, `${row.text} / ${column.text}: ${answer_text}`)
    else lines.delete(place)
  }
  return [...lines.values()].join('\n')
}
