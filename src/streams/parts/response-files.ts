/**
 * The rows of `response_files` and `response_signatures`: metadata of a file or an image, never its bytes.
 *
 * Invariant: an address has neither query string nor fragment, which would let its holder fetch the file.
 */
import { isLosslessNumber } from '../../core/json.ts'
import { type Child, type Column, column, text, time } from '../stream.ts'
import { withoutQuery } from './addresses.ts'
import { readCell } from './cell.ts'
import { cellsOf } from './parts.ts'
import { FILE_FIELDS, partsOf, SIGNATURE_FIELDS } from './response-parts.ts'

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
    columns: ['position', id.name, 'question_id', ...others.map((each) => each.name)],
    rows: (response, problems) =>
      partsOf(response, fields, problems).map(({ record, position, path, questionId }) => [
        String(position),
        ...cellsOf([id], record, path, problems),
        questionId,
        ...cellsOf(others, record, path, problems),
      ]),
  }
}
