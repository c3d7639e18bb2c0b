/**
 * Paths within a response, as problems and drift are counted by them.
 *
 * Invariant: of a path that leads into answers or parts, only names of ours remain; the rest, which may be a question's
 * id, a key of somebody's JSON or any other data, is `*`.
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

/** In a list: names of ours from its beginning. */
const LISTED = new RegExp(`^((?:${LISTS.join('|')})\\[\\d*\\]${NAMED})(.*)$`, 's')

/** Answers by question: names of ours at the end, after a key that may hold anything. */
const KEYED = new RegExp(`^answers\\..*?((?:\\[\\d*\\])?${NAMED})$`, 's')

/** A path that leads into answers or parts. */
export const OF_RESPONSES = new RegExp(`^(?:${LISTS.join('|')})(?:[.[]|$)`)

/** A path as long as this is one of keys that are data, and would take long to take apart. */
const LONGEST = 1000

export function withoutForeignKeys(path: string): string {
  if (path.length > LONGEST && path.startsWith('answers.')) return 'answers.*'
  return path
    .replace(KEYED, 'answers.*$1')
    .replace(LISTED, (_, ours: string, rest: string) => (rest === '' ? ours : `${ours}.*`))
}
