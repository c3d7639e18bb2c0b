/**
 * Converts hand-written answers to the service's format.
 *
 * Invariant: the result contains every given value, or a `RangeError` names the question; other questions stay
 * unanswered.
 */
import { stableId } from '../world/id-space.ts'
import type {
  Answer,
  Answers,
  ESignature,
  Form,
  MatrixCell,
  Question,
  ResponseFile,
} from '../world/records.ts'

type Given = Readonly<Record<string, unknown>>

/**
 * By question id: a text, a number or a boolean; for choices the text of one or a list of several; for a question of
 * a repeated block a list, one value for each repetition; for a table `{row: {column: text}}`, or `{row: column}`
 * where one column is chosen; for a file `{name, content_type, size}`; for a signature the signer's name.
 */
export function readGivenAnswers(
  form: Form,
  given: Given,
  key: { a: number; b: number },
  at: string,
): Answers {
  const unknown = Object.keys(given).find((id) => !form.questions.some((question) => question.id === id))
  if (unknown !== undefined) throw new RangeError(`the form has no question ${unknown}`)
  const answers: Answer[] = []
  const matrix_cells: MatrixCell[] = []
  const files: ResponseFile[] = []
  const e_signatures: ESignature[] = []
  let nth = 0
  const id = () => {
    nth += 1
    return stableId(key, Date.parse(at), nth)
  }
  const give = (
    { id: question, text }: Question,
    answer_text: string | null,
    chosen: Question['choices'] = [],
  ) =>
    void answers.push({
      id: id(),
      question: { id: question, text },
      answer_text,
      answer_choices: chosen.map((question_choice) => ({ question_choice })),
    })
  for (const question of form.questions) {
    const value = given[question.id]
    if (value === undefined) continue
    const type = question.question_type.question_type
    if (type === 'matrix') {
      give(question, null)
      matrix_cells.push(...cellsOf(question, value))
    } else if (type === 'file') {
      give(question, null)
      files.push({ id: id(), question: { id: question.id }, ...fileOf(question, value) })
    } else if (type === 'signature') {
      give(question, null)
      const signer_name = textOf(question, value) ?? ''
      e_signatures.push({
        id: id(),
        question: { id: question.id },
        signed_at: at,
        signer_name,
        image: 'inline',
      })
    } else if (question.choices.length > 0) {
      for (const one of repetitions(question, value, true)) give(question, null, choicesOf(question, one))
    } else {
      for (const one of repetitions(question, value, false)) give(question, textOf(question, one))
    }
  }
  return { answers, matrix_cells, files, e_signatures }
}

/** The values of each repetition; a question outside a block has one. */
function repetitions(question: Question, value: unknown, isChoice: boolean): unknown[] {
  if (question.block === undefined) return [value]
  if (!Array.isArray(value)) return [value]
  return isChoice && !value.some(Array.isArray) ? value.map((one) => [one]) : value
}

function textOf(question: Question, value: unknown): string | null {
  if (value === null) return null
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw new RangeError(`question ${question.id} takes a text`)
}

function choicesOf(question: Question, value: unknown): Question['choices'] {
  const wanted = value === null ? [] : Array.isArray(value) ? value : [value]
  return wanted.map((one) => {
    const found = question.choices.find(({ id, text_value }) => id === one || text_value === one)
    if (found === undefined) throw new RangeError(`question ${question.id} has no such choice`)
    return found
  })
}

function cellsOf(question: Question, value: unknown): MatrixCell[] {
  const heading = (of: Question['rows'], name: string, kind: string) => {
    const found = of?.find(({ id, text }) => id === name || text === name)
    if (found === undefined) throw new RangeError(`question ${question.id} has no such ${kind}`)
    return found
  }
  return Object.entries(objectOf(question, value)).flatMap(([rowName, inRow]) => {
    const row = heading(question.rows, rowName, 'row')
    const cells = typeof inRow === 'string' ? { [inRow]: null } : objectOf(question, inRow)
    return Object.entries(cells).map(([columnName, text]) => {
      const column = heading(question.columns, columnName, 'column')
      return {
        question: { id: question.id },
        row,
        column,
        answer_text: textOf(question, text) ?? column.text,
      }
    })
  })
}

function fileOf(question: Question, value: unknown): Omit<ResponseFile, 'id' | 'question'> {
  const { name = 'file', content_type = 'application/octet-stream', size = 0 } = objectOf(question, value)
  return { name: String(name), content_type: String(content_type), size: Number(size) }
}

function objectOf(question: Question, value: unknown): Given {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Given
  throw new RangeError(`question ${question.id} takes an object`)
}
