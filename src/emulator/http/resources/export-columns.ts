/**
 * The columns of an export (specification, section 4.5).
 *
 * Invariant: they depend on the current form only. Every question that asks something has a column, or one per table
 * cell in the flat style, titled with its current text; titles can repeat.
 */
import type { Form, Question } from '../../world/records.ts'

/** `flat` is what `X-API-VERSION: v2.1` selects. */
export type Style = 'legacy' | 'flat'

export interface Column {
  readonly title: string
  readonly question: Question
  /** True for a member of a repeated block. */
  readonly repeated: boolean
  /** The cell of a table that the column shows; without it, all of the question. */
  readonly cell?: { readonly row: string; readonly column: string }
}

export const LEADING_TITLES = [
  'Client ID',
  'First Name',
  'Last Name',
  'Email',
  'Sent at',
  'Completed at',
  'Archived',
] as const

const ASKS_NOTHING = new Set(['display_only', 'repeated_block'])

export function columnsOf(form: Form, style: Style): Column[] {
  const blocks = new Set(
    form.questions.flatMap(({ id, question_type }) =>
      question_type.question_type === 'repeated_block' ? [id] : [],
    ),
  )
  return form.questions
    .toSorted(style === 'flat' ? byPlace : (a, b) => a.order - b.order)
    .filter(({ question_type }) => !ASKS_NOTHING.has(question_type.question_type))
    .flatMap((question) => {
      const whole = {
        title: question.text,
        question,
        repeated: question.block !== undefined && blocks.has(question.block),
      }
      const isTable = question.question_type.question_type === 'matrix'
      return style === 'flat' && isTable ? cellsOf(whole) : [whole]
    })
}

function byPlace(a: Question, b: Question): number {
  return a.page - b.page || a.section - b.section || a.row - b.row || a.order - b.order
}

/** Column by column, and in each of them row by row. */
function cellsOf(whole: Column): Column[] {
  const { rows = [], columns = [] } = whole.question
  return columns.flatMap((column) =>
    rows.map((row) => ({
      ...whole,
      title: `${whole.question.text} - ${row.text} - ${column.text}`,
      cell: { row: row.id, column: column.id },
    })),
  )
}
