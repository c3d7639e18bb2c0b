/**
 * Responses (specification, section 2.4): what clients submitted, with answers, matrix cells, files and e-signatures.
 * Their inner shape is not shown; it is read in every shape that such data has been seen in.
 */
import { isObject } from '../core/json.ts'
import { formName } from './parts/parts.ts'
import { responseAnswers } from './parts/response-answers.ts'
import { cleansedResponse } from './parts/response-cleansing.ts'
import {
  CELL_FIELDS,
  FILE_FIELDS,
  matrixCells,
  responseFiles,
  responseSignatures,
  SIGNATURE_FIELDS,
} from './parts/response-parts.ts'
import { column, reference, type Stream, time } from './stream.ts'

const LISTS = ['answers', ...CELL_FIELDS, ...FILE_FIELDS, ...SIGNATURE_FIELDS]

const NAMES = [
  ...LISTS.slice(1),
  ...['id', 'uid', 'index', 'text', 'text_value', 'label', 'name', 'value'],
  ...['question', 'question_id', 'question_text', 'answer_text', 'answer_choices'],
  ...['question_choice', 'question_choice_id', 'choice_id'],
  ...['row', 'row_id', 'row_index', 'row_text', 'column', 'column_id', 'column_index', 'column_text'],
  ...['content_type', 'size', 'size_bytes', 'url', 'signer_name', 'signed_at'],
]

const NAMED = `(?:\\.(?:${NAMES.join('|')})(?=[.[]|$)(?:\\[\\d*\\])?)*`

/** In a list: known names from its start. */
const LISTED = new RegExp(`^((?:${LISTS.join('|')})\\[\\d*\\]${NAMED})(.*)$`, 's')

/** Answers by question: known names at the end, after an arbitrary key. */
const KEYED = new RegExp(`^answers\\..*?((?:\\[\\d*\\])?${NAMED})$`, 's')

/** A path into answers or parts. */
const OF_RESPONSES = new RegExp(`^(?:${LISTS.join('|')})(?:[.[]|$)`)

/** A longer path consists of keys that are data, and matching it would be slow. */
const MAX_LENGTH = 1000

/**
 * The path as problems and drift are counted by it; null for one that leads elsewhere than into answers or parts.
 *
 * Invariant: only known names remain; the rest, which may be a question's id, a key of arbitrary JSON or other data,
 * becomes `*`.
 */
function safeResponsePath(path: string): string | null {
  if (!OF_RESPONSES.test(path)) return null
  if (path.length > MAX_LENGTH && path.startsWith('answers.')) return 'answers.*'
  return path
    .replace(KEYED, 'answers.*$1')
    .replace(LISTED, (_, ours: string, rest: string) => (rest === '' ? ours : `${ours}.*`))
}

export const responses: Stream = {
  name: 'responses',
  source: 'response',
  list: { name: 'responses', path: '/v2/responses' },
  one: { name: 'response', path: '/v2/responses/{id}' },
  reading: { kind: 'windows', parameter: 'submitted_after', field: 'submitted_at' },
  table: 'responses',
  columns: [
    reference('patient_id', 'patients', 'patient'),
    reference('form_id', 'forms', 'form'),
    formName,
    reference('packet_id', 'packets', 'packet'),
    reference('document_id', 'documents', 'document'),
    column('boolean', 'is_submitted'),
    column('boolean', 'is_skipped'),
    column('boolean', 'is_archived'),
    time('submitted_at'),
    time('created_at'),
    time('updated_at'),
  ],
  children: [responseAnswers, matrixCells, responseFiles, responseSignatures],
  otherFields: ['answers', ...CELL_FIELDS, ...FILE_FIELDS, ...SIGNATURE_FIELDS],
  safePath: safeResponsePath,
  settledBy: 'is_submitted',
  analysts: { views: ['responses', 'answers', 'matrix_answers'] },
  // A service that leaves out what is empty leaves it out by id too: such a record is whole once it was fetched.
  isSummary: (record) => !('answers' in record),
  isOrdered: ({ answers }) => isObject(answers),
  cleanse: cleansedResponse,
}
