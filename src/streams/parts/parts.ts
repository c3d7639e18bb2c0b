/**
 * Reading the parts of a record that may be there, be null, be empty or be of another type than expected.
 *
 * Invariant: a part of a type that cannot be read is a problem with its original, never a silent absence; null, a
 * missing field and an empty object or array are no part.
 */
import { canonicalText } from '../../core/canonical.ts'
import type { Problem } from '../../core/envelope.ts'
import { isLosslessNumber, isObject, type JsonObject } from '../../core/json.ts'
import { type Column, firstOf, text } from '../stream.ts'
import { type Cell, readCell } from './cell.ts'

export interface Item {
  readonly value: unknown
  /** Place in the payload, from 1. */
  readonly position: number
  readonly path: string
}

/** Items of an array field; nulls and empty objects are no items, and those after them keep their place. */
export function itemsOf(value: unknown, path: string, problems: Problem[]): readonly Item[] {
  if (isNothing(value)) return []
  if (!Array.isArray(value)) {
    problems.push({ path, reason: 'not an array', original: value })
    return []
  }
  const items: Item[] = []
  for (let index = 0; index < value.length; index++) {
    const item: unknown = value[index]
    if (item === '' || !isNothing(item))
      items.push({ value: item, position: index + 1, path: `${path}[${index}]` })
  }
  return items
}

/** Entries of an object field, or null when there is none or it is of another type. */
export function objectOf(value: unknown, path: string, problems: Problem[]): JsonObject | null {
  if (isNothing(value)) return null
  if (isObject(value)) return value
  problems.push({ path, reason: 'not an object', original: value })
  return null
}

/** The cells of `columns` read from `record`; `path` is that of the record, empty at the top. */
export function cellsOf(
  columns: readonly Column[],
  record: JsonObject,
  path: string,
  problems: Problem[],
): Cell[] {
  const cells: Cell[] = []
  for (const column of columns) {
    if (column.read !== undefined) {
      cells.push(column.read(record, path, problems))
      continue
    }
    const { field, value } = firstOf(record, column.from)
    cells.push(
      value === null
        ? null
        : readCell(column.type, value, path === '' ? field : `${path}.${field}`, problems),
    )
  }
  return cells
}

function isNothing(value: unknown): boolean {
  return value === null || value === undefined || value === '' || (isObject(value) && isEmpty(value))
}

export function isEmpty(record: JsonObject): boolean {
  for (const name in record) if (Object.hasOwn(record, name)) return false
  return true
}

/**
 * A bare value where the service may write an id, an index or a text: a row of a matrix, a choice.
 *
 * Invariant: the value is in one of the two cells, exactly as received. A number, or a text that looks like a UUID, is an
 * id of the service; any other text is a label, also one of digits: the columns of a scale are labeled 1, 2, 3.
 */
const UUID = /^[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i

export function idOrText(value: unknown, path: string, problems: Problem[]): [id: Cell, text: Cell] {
  if (typeof value === 'string') return UUID.test(value) ? [value, null] : [null, value]
  if (typeof value === 'number' || isLosslessNumber(value)) return [canonicalText(value), null]
  if (typeof value === 'boolean') return [null, String(value)]
  return [readCell('reference', value, path, problems), null]
}

/** The name of the form of a record: from `form_name`, or from the embedded form. */
export const formName: Column = {
  ...text('form_name'),
  read({ form_name, form }, _path, problems) {
    const own = readCell('text', form_name, 'form_name', problems)
    return own === null && isObject(form) ? readCell('text', form.name, 'form.name', problems) : own
  },
}
