/**
 * Reading the parts of a record that may be there, be null, be empty or be of another type than expected.
 *
 * Invariant: a part of a type that cannot be read is a problem with its original, never a silent absence; null, a
 * missing field and an empty object or array are no part.
 */

import type { Problem } from '../../core/envelope.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { type Column, firstOf } from '../stream.ts'
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
  for (let at = 0; at < value.length; at++) {
    const item: unknown = value[at]
    if (item === '' || !isNothing(item)) items.push({ value: item, position: at + 1, path: `${path}[${at}]` })
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
