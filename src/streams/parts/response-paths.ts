/**
 * Paths within a response, as problems and drift are counted by them.
 *
 * Invariant: in a path into answers or parts only known names remain; the rest, which may be a question's id, a key of
 * arbitrary JSON or other data, becomes `*`.
 */
import { CELL_FIELDS, FILE_FIELDS, SIGNATURE_FIELDS } from './response-parts.ts'

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

/** Null for a path that leads elsewhere. */
export function safeResponsePath(path: string): string | null {
  if (!OF_RESPONSES.test(path)) return null
  if (path.length > MAX_LENGTH && path.startsWith('answers.')) return 'answers.*'
  return path
    .replace(KEYED, 'answers.*$1')
    .replace(LISTED, (_, ours: string, rest: string) => (rest === '' ? ours : `${ours}.*`))
}
