/**
 * The columns of a wide view: the existing ones, and one for each question without a column. And names of columns and
 * views, derived from texts that people wrote.
 *
 * Invariant: an existing column keeps its name, type and position; a reworded question keeps its column, and a question
 * whose type changed gets a second one. A name has at most 63 bytes, needs no quotes for a text in Latin letters, is none
 * of `taken`, and is the same for the same text and the same names taken.
 */
export interface WideColumn {
  readonly place: number
  readonly column_name: string
  readonly question_id: string
  readonly data_type: DataType
  readonly is_array: boolean
  readonly question_text: string | null
  readonly question_type: string | null
}

export type DataType = 'text' | 'numeric' | 'boolean' | 'date' | 'timestamptz' | 'jsonb' | 'integer'

/** A question that a form asks or an answer refers to, with the kind of its answers. */
export interface AskedQuestion {
  readonly question_id: string
  readonly question_text: string | null
  readonly question_type: string | null
  /** choice, number, checkbox, date, text, matrix, file, signature, none or other; in an export, year for a date. */
  readonly kind: string
  /** True for a member of a repeated block, and if a response answers it several times. */
  readonly repeats: boolean
  /** False for a question that only answers refer to. */
  readonly is_asked: boolean
}

/** Postgres allows 1,600 columns in a view; further questions are in the long tables only. */
export const MAX_COLUMNS = 1_500

export function columnsFor(
  known: readonly WideColumn[],
  questions: readonly AskedQuestion[],
  reserved: ReadonlySet<string>,
): readonly WideColumn[] {
  const asked = questions.filter(({ is_asked }) => is_asked)
  const texts = new Map(asked.map((each) => [each.question_id, each.question_text]))
  const columns = known.map((column) => ({
    ...column,
    question_text: texts.get(column.question_id) ?? column.question_text,
  }))
  const taken = new Set([...reserved, ...columns.map(({ column_name }) => column_name)])
  for (const question of questions) {
    if (question.kind === 'none' || columns.length >= MAX_COLUMNS) continue
    const own = columns.filter(({ question_id }) => question_id === question.question_id)
    const { data_type, is_array } = question.is_asked ? typeOf(question) : asBefore(question, own.at(-1))
    if (own.some((column) => column.data_type === data_type && (column.is_array || !is_array))) continue
    const text =
      own.length === 0
        ? (question.question_text ?? '')
        : `${own[0]!.column_name}_${is_array ? 'all' : data_type}`
    const column_name = nameFor(text, { empty: 'question', prefix: 'q_', taken })
    taken.add(column_name)
    const { question_id, question_text, question_type } = question
    columns.push({
      ...{ place: columns.length + 1, column_name, question_id, data_type, is_array },
      ...{ question_text, question_type },
    })
  }
  return columns
}

/** A question that is no longer asked keeps its type; it becomes an array once an answer repeats. */
function asBefore(question: AskedQuestion, last: WideColumn | undefined) {
  if (last === undefined) return typeOf(question)
  const { data_type, is_array } = last
  return { data_type, is_array: is_array || (question.repeats && MAY_REPEAT.has(data_type)) }
}

const MAY_REPEAT: ReadonlySet<DataType> = new Set(['text', 'numeric', 'boolean', 'date'])

function typeOf({ kind, question_type, repeats }: AskedQuestion): Pick<WideColumn, 'data_type' | 'is_array'> {
  switch (kind) {
    case 'number':
      return { data_type: 'numeric', is_array: repeats }
    case 'checkbox':
      return { data_type: 'boolean', is_array: repeats }
    case 'date':
      return { data_type: question_type?.toLowerCase() === 'date' ? 'date' : 'text', is_array: repeats }
    case 'year':
      return { data_type: 'integer', is_array: false }
    case 'choice':
      return { data_type: 'text', is_array: repeats || /multi/i.test(question_type ?? '') }
    case 'file':
      return { data_type: 'text', is_array: true }
    case 'matrix':
      return { data_type: 'jsonb', is_array: false }
    case 'signature':
      return { data_type: 'timestamptz', is_array: false }
    default:
      return { data_type: 'text', is_array: repeats }
  }
}

/** What Postgres keeps of an identifier, in bytes. */
const MAX_BYTES = 63

/** Letters and digits of any script in lower case, as they are typed; everything else one underscore; without accents. */
export function slugOf(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase()
    .replace(/ß/g, 'ss')
    .normalize('NFC')
    .replace(/[^\p{L}\p{N}\p{M}]+/gu, '_')
    .replace(/^_+|_+$/g, '')
}

export interface Naming {
  /** Of a text that leaves nothing to make a name of. */
  readonly empty: string
  /** Before a name that would begin with a digit. */
  readonly prefix: string
  readonly taken: ReadonlySet<string>
}

export function nameFor(text: string, { empty, prefix, taken }: Naming): string {
  const slug = slugOf(text) || empty
  const base = cut(/^\p{N}/u.test(slug) ? `${prefix}${slug}` : slug, MAX_BYTES)
  if (!taken.has(base)) return base
  for (let number = 2; ; number++) {
    const suffix = `_${number}`
    const name = `${cut(base, MAX_BYTES - suffix.length)}${suffix}`
    if (!taken.has(name)) return name
  }
}

/** The beginning of `text` that fits, by whole characters, without an underscore at its end. */
function cut(text: string, bytes: number): string {
  let kept = ''
  let length = 0
  for (const character of text) {
    length += Buffer.byteLength(character)
    if (length > bytes) break
    kept += character
  }
  return kept.replace(/_+$/, '')
}
