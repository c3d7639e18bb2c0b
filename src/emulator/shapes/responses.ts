/**
 * Alternative notations of responses and of their filters, and formats of exports.
 *
 * Invariant: as in forms.ts, only answers change.
 */
import type { JsonRecord } from '../http/answer.ts'
import { groupBy, type ShapePart, without } from './shape.ts'

/** A shape of responses only. */
const responses = (
  matter: string,
  summary: string,
  change: (response: JsonRecord) => JsonRecord,
): ShapePart => ({
  matter,
  summary,
  record: (record, { resource }) => (resource === 'responses' ? change(record) : record),
})

const PARTS = ['matrix_cells', 'files', 'e_signatures'] as const
const listOf = (value: unknown): readonly JsonRecord[] => (Array.isArray(value) ? value : [])
const questionOf = ({ question }: JsonRecord): unknown => (question as JsonRecord | null)?.id ?? null

const renamed =
  (names: Readonly<Record<string, string>>) =>
  (response: JsonRecord): JsonRecord =>
    Object.fromEntries(Object.entries(response).map(([name, value]) => [names[name] ?? name, value]))

/** Rewrites the row and column of each cell with `write`, which receives the heading and its position from 0. */
const headings =
  (write: (heading: JsonRecord, place: number) => unknown) =>
  (response: JsonRecord): JsonRecord => {
    const placeOf = (name: 'row' | 'column') => {
      const inQuestion = groupBy(listOf(response.matrix_cells), questionOf)
      const ids = new Map(
        [...inQuestion].map(([id, cells]) => [
          id,
          [...new Set(cells.map((cell) => (cell[name] as JsonRecord).id))],
        ]),
      )
      return (cell: JsonRecord) => ids.get(questionOf(cell))!.indexOf((cell[name] as JsonRecord).id)
    }
    const [rowAt, columnAt] = [placeOf('row'), placeOf('column')]
    return {
      ...response,
      matrix_cells: listOf(response.matrix_cells).map((cell) => ({
        ...cell,
        row: write(cell.row as JsonRecord, rowAt(cell)),
        column: write(cell.column as JsonRecord, columnAt(cell)),
      })),
    }
  }

/** Moves cells, files and signatures into the answers to their questions. */
function nestParts(response: JsonRecord): JsonRecord {
  const parts = PARTS.map((name) => [name, groupBy(listOf(response[name]), questionOf)] as const)
  const answers = listOf(response.answers).map((answer) => {
    const partsOfAnswer = parts.map(([name, byQuestion]) => {
      const found = byQuestion.get(questionOf(answer)) ?? []
      // The first answer to a question gets them all.
      byQuestion.delete(questionOf(answer))
      return [name, found.map((part) => without(part, 'question'))] as const
    })
    return { ...answer, ...Object.fromEntries(partsOfAnswer.filter(([, found]) => found.length > 0)) }
  })
  return { ...without(response, ...PARTS), answers }
}

/** Answers by question id; a question answered several times has a list. */
function keyAnswers(response: JsonRecord): JsonRecord {
  const byQuestion = groupBy(listOf(response.answers), (answer) => String(questionOf(answer) ?? ''))
  const value = ({ question, ...answer }: JsonRecord) => ({
    ...answer,
    question_text: (question as JsonRecord | null)?.text ?? null,
  })
  const answers = [...byQuestion].map(([id, all]) => [id, all.length === 1 ? value(all[0]!) : all.map(value)])
  return { ...response, answers: Object.fromEntries(answers) }
}

const bareChoices = (response: JsonRecord): JsonRecord => ({
  ...response,
  answers: listOf(response.answers).map((answer) => ({
    ...answer,
    answer_choices: answer.answer_choices
      ? listOf(answer.answer_choices).map((choice) => (choice.question_choice as JsonRecord).text_value)
      : null,
  })),
})

/** In the order in which they are applied: fields that a later one reads keep their default form until then. */
export const RESPONSES = {
  'heading-texts': responses(
    'matrix-headings',
    'rows and columns of matrix cells are their texts',
    headings(({ text }) => text),
  ),
  'heading-ids': responses(
    'matrix-headings',
    'rows and columns of matrix cells are their ids',
    headings(({ id }) => id),
  ),
  'heading-indexes': responses(
    'matrix-headings',
    'rows and columns of matrix cells are numbers, from 0',
    headings((_, place) => place),
  ),
  'answered-choice-texts': responses('answered-choices', 'chosen answers are bare strings', bareChoices),
  'nested-parts': responses(
    'response-parts',
    'matrix cells, files and signatures are in the answers that they belong to',
    nestParts,
  ),
  'other-part-names': responses(
    'response-parts',
    'cells, files and signatures are named matrix_answers, uploads and esignatures',
    renamed({ matrix_cells: 'matrix_answers', files: 'uploads', e_signatures: 'esignatures' }),
  ),
  'short-part-names': responses(
    'response-parts',
    'cells, files and signatures are named matrix, attachments and signatures',
    renamed({ matrix_cells: 'matrix', files: 'attachments', e_signatures: 'signatures' }),
  ),
  'answers-object': responses('answers', 'answers are an object by question id', keyAnswers),
  'response-summaries': {
    matter: 'response-lists',
    summary: 'listed responses have no answers, cells, files or signatures; fetch each by id',
    record: (record, { resource, inList }) =>
      inList && resource === 'responses' ? without(record, 'answers', ...PARTS) : record,
  },
  'bounds-exclusive': {
    matter: 'bounds',
    summary: 'submitted_after and submitted_before exclude the day itself',
    flags: ['bounds-exclusive'],
  },
  'bounds-zone': {
    matter: 'bounds',
    summary: 'the days of date filters are those of a zone eight hours behind UTC',
    flags: ['bounds-zone'],
  },
  'filters-ignored': {
    matter: 'filters',
    summary: 'lists ignore filters and return everything',
    flags: ['filters-ignored'],
  },
} satisfies Record<string, ShapePart>

/** Formats of exports and their list. Each contains all rows; objects keyed by title lose the cells of repeated titles. */
export const EXPORTS = {
  'export-form-id': {
    matter: 'export-form',
    summary: 'an export names its form by form_id and form_name',
    record: (record, { resource }) => {
      if (resource !== 'exports') return record
      const form = record.form as JsonRecord
      return { ...without(record, 'form'), form_id: form.id, form_name: form.name }
    },
  },
  'export-json-data': {
    matter: 'export-json',
    summary: 'an export as JSON has its rows in `data`',
    flags: ['export-json-data'],
  },
  'export-json-rows': {
    matter: 'export-json',
    summary: 'an export as JSON is {headers, rows}, its rows arrays',
    flags: ['export-json-rows'],
  },
  'raw-text-csv': {
    matter: 'raw-text',
    summary: 'raw_text comes as text/csv',
    flags: ['raw-text-csv'],
  },
  'raw-text-quoted': {
    matter: 'raw-text',
    summary: 'raw_text comes as one JSON string',
    flags: ['raw-text-quoted'],
  },
  'raw-text-bom': {
    matter: 'raw-text-bom',
    summary: 'raw_text and the file to download begin with a byte order mark',
    flags: ['raw-text-bom'],
  },
} satisfies Record<string, ShapePart>
