/**
 * The matrix cells, files and e-signatures of a response, under each of their known names, in the response or in its
 * answers.
 *
 * Invariant: every part is found once, and numbered within the response: first parts of answers, in the order of the
 * answers, then parts of the response itself. A part of an answer has the question of that answer. A text
 * that is neither an address nor an image, or contains one among other words, stays as it is.
 */
import type { Problem } from '../../core/envelope.ts'
import { isLosslessNumber, isObject, type JsonObject } from '../../core/json.ts'
import { type Child, type Column, column, firstOf, text, time } from '../stream.ts'
import { answeredQuestionOf, answersOf, questionIdOf, questionTextOf } from './answers.ts'
import { type Cell, readCell } from './cell.ts'
import { cellsOf, idOrText, itemsOf, objectOf } from './parts.ts'

export const CELL_FIELDS = ['matrix_cells', 'matrix_answers', 'matrix'] as const
export const FILE_FIELDS = ['files', 'uploads', 'attachments'] as const
export const SIGNATURE_FIELDS = ['e_signatures', 'esignatures', 'signatures'] as const

export interface Part {
  readonly record: JsonObject
  readonly position: number
  readonly path: string
  readonly questionId: Cell
}

/** The parts under any of `fields`. */
export function partsOf(
  response: JsonObject,
  fields: readonly string[],
  problems: Problem[],
): readonly Part[] {
  const parts: Part[] = []
  let places = 0

  function collect(holder: JsonObject, path: string, questionOf: () => Cell): void {
    for (const field of fields) {
      const list = holder[field]
      for (const item of itemsOf(list, path === '' ? field : `${path}.${field}`, problems)) {
        const record = objectOf(item.value, item.path, problems)
        if (record === null) continue
        const questionId = questionOf() ?? questionIdOf(record, item.path, problems)
        parts.push({ record, position: places + item.position, path: item.path, questionId })
      }
      places += Array.isArray(list) ? list.length : 0
    }
  }

  if (mayNest(response.answers, fields)) {
    for (const answer of answersOf(response, []))
      collect(answer.record, answer.path, () => answeredQuestionOf(answer, []))
  }
  collect(response, '', () => null)
  return parts
}

/** Quick test: false if no answer has a part, which is usual. */
function mayNest(answers: unknown, fields: readonly string[]): boolean {
  if (!Array.isArray(answers)) return isObject(answers)
  return answers.some((answer) => isObject(answer) && fields.some((field) => field in answer))
}

/**
 * The rows of `response_files` and `response_signatures`: metadata of a file or an image, never its bytes.
 *
 * Invariant: an address has neither query string nor fragment, which would let its holder fetch the file.
 */
const URL: Column = {
  ...text('url'),
  read(record, path, problems) {
    const cell = readCell('text', record.url, `${path}.url`, problems)
    return cell === null ? null : withoutQuery(cell)
  },
}

/** Fields with an image or its address. */
const IMAGE_FIELDS = ['image', 'url', 'data'] as const

const HAS_IMAGE: Column = {
  ...column('boolean', 'has_image'),
  read: (record) => (IMAGE_FIELDS.some((field) => hasContent(record[field])) ? 't' : 'f'),
}

/** False for an empty value, and for an object or list of empty values. */
function hasContent(value: unknown): boolean {
  if (typeof value === 'string') return value.trim() !== ''
  if (typeof value !== 'object' || value === null) return value === true || typeof value === 'number'
  return isLosslessNumber(value) || Object.values(value).some(hasContent)
}

export const responseFiles: Child = parts('response_files', FILE_FIELDS, [
  { ...column('reference', 'id', 'uid'), name: 'file_id' },
  text('name'),
  text('content_type'),
  { ...column('bigint', 'size', 'size_bytes'), name: 'size_bytes' },
  URL,
])

export const responseSignatures: Child = parts('response_signatures', SIGNATURE_FIELDS, [
  { ...column('reference', 'id', 'uid'), name: 'signature_id' },
  text('signer_name'),
  time('signed_at'),
  HAS_IMAGE,
])

/** A table of parts with these columns: the part's id, its question, then the others. */
function parts(table: string, fields: readonly string[], columns: readonly Column[]): Child {
  const [id, ...others] = columns as [Column, ...Column[]]
  return {
    table,
    parent: 'response_id',
    columns: ['position', id.name, 'question_id', ...others.map((other) => other.name)],
    rows: (response, problems) =>
      partsOf(response, fields, problems).map(({ record, position, path, questionId }) => [
        String(position),
        ...cellsOf([id], record, path, problems),
        questionId,
        ...cellsOf(others, record, path, problems),
      ]),
  }
}

/**
 * One row per cell, in order; cells with equal values are all kept. A cell has the text of its question as the response
 * shows it: in the cell, or in an answer to the same question.
 */
export const matrixCells: Child = {
  table: 'response_matrix_cells',
  parent: 'response_id',
  columns: [
    'position',
    'question_id',
    'row_id',
    'row_text',
    'column_id',
    'column_text',
    'value_text',
    'question_text',
  ],
  rows(record, problems) {
    const parts = partsOf(record, CELL_FIELDS, problems)
    const texts = parts.length === 0 ? NO_TEXTS : questionTextsOf(record)
    return parts.map((cell) => [
      String(cell.position),
      cell.questionId,
      ...headingOf(cell.record, 'row', cell.path, problems),
      ...headingOf(cell.record, 'column', cell.path, problems),
      ...cellsOf(VALUE, cell.record, cell.path, problems),
      questionTextOf(cell, problems) ?? texts.get(cell.questionId) ?? null,
    ])
  },
}

const NO_TEXTS: ReadonlyMap<Cell, Cell> = new Map()

/** The texts of the questions that the response answers, by id; problems are reported with the answers. */
function questionTextsOf(response: JsonObject): ReadonlyMap<Cell, Cell> {
  const texts = new Map<Cell, Cell>()
  for (const answer of answersOf(response, [])) {
    const id = answeredQuestionOf(answer, [])
    const words = id === null || texts.has(id) ? null : questionTextOf(answer, [])
    if (words !== null) texts.set(id, words)
  }
  return texts
}

const VALUE = [text('answer_text', 'value', 'text')]

const HEADING = [column('reference', 'id', 'uid', 'index'), text('text', 'text_value', 'label', 'name')]

/** Id and text of a row or column: an object, or a bare id, text or index; else the separate fields of the cell. */
function headingOf(
  cell: JsonObject,
  name: 'row' | 'column',
  path: string,
  problems: Problem[],
): readonly Cell[] {
  const heading = cell[name]
  if (isObject(heading)) return cellsOf(HEADING, heading, `${path}.${name}`, problems)
  if (heading !== undefined && heading !== null) return idOrText(heading, `${path}.${name}`, problems)
  const id = firstOf(cell, [`${name}_id`, `${name}_index`])
  return [
    readCell('reference', id.value, `${path}.${id.field}`, problems),
    readCell('text', cell[`${name}_text`], `${path}.${name}_text`, problems),
  ]
}

/** Stands where the bytes of an image or a file stood. */
export const REMOVED_VALUE = '(not kept)'

/** The address up to its query string or fragment. */
export function withoutQuery(address: string): string {
  const end = address.search(/[?#]/)
  return end === -1 ? address : address.slice(0, end)
}

/** True for a text that begins as an absolute address does. */
export function beginsAsAddress(text: string): boolean {
  return /^\s*(?:[a-z][a-z0-9+.-]{0,20}:)?\/\//i.test(text)
}

/** True for a text that is one absolute address and nothing else. */
function isAddress(text: string): boolean {
  return beginsAsAddress(text) && !/\S\s+\S/.test(text)
}

/** True for bytes written as text: a `data:` address. */
export function isInlineData(text: string): boolean {
  return /^\s*data:[^,\s]{0,200},/i.test(text)
}

/** True for a text that is one image, written as a `data:` address, and nothing else. */
export function isInlineImage(text: string): boolean {
  return /^\s*data:image\/[a-z0-9.+-]{1,50}(?:;[^,\s]{0,200})?,\S*\s*$/i.test(text)
}

/** Names under which object stores carry a signature: theirs, and `signature` itself. */
const SIGNATURE = /[?&#](?:amp;)?(?:x-[a-z]+-)?(?:signature|sig)=/i

/** True for an address that lets in whoever holds it. */
export function isSigned(address: string): boolean {
  return SIGNATURE.test(address) && isAddress(address)
}
