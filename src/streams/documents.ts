/**
 * Documents (specification, sections 2.3 and 9): `input_fields` come only when version v2.1 is requested.
 *
 * Invariant: fields that are a list or an object keyed by name give the same rows, in the same order.
 */
import type { Problem } from '../core/envelope.ts'
import { isObject } from '../core/json.ts'
import type { Cell } from './parts/cell.ts'
import { cellsOf, type Item, itemsOf, objectOf } from './parts/parts.ts'
import { type Child, column, type Stream, text, time } from './stream.ts'

const FIELD_COLUMNS = [
  column('reference', 'id', 'uid', 'field_id'),
  text('name'),
  text('label'),
  text('field_type', 'type'),
  column('boolean', 'required'),
  column('integer', 'page'),
]

const inputFields: Child = {
  table: 'document_input_fields',
  parent: 'document_id',
  columns: ['position', 'field_id', 'name', 'label', 'field_type', 'required', 'page'],
  rows(record, problems) {
    const rows: Cell[][] = []
    for (const item of fieldItems(record.input_fields, problems)) {
      const field =
        typeof item.value === 'string' ? { name: item.value } : objectOf(item.value, item.path, problems)
      if (field !== null)
        rows.push([String(item.position), ...cellsOf(FIELD_COLUMNS, field, item.path, problems)])
    }
    return rows
  },
}

/** An array, or an object keyed by the fields' names. */
function fieldItems(value: unknown, problems: Problem[]): readonly Item[] {
  if (!isObject(value)) return itemsOf(value, 'input_fields', problems)
  return Object.entries(value).map(([name, field], index) => {
    const path = `input_fields.${name}`
    const known = objectOf(field, path, problems) ?? {}
    return { value: { ...known, name: known.name ?? name }, position: index + 1, path }
  })
}

export const documents: Stream = {
  name: 'documents',
  source: 'document',
  list: { name: 'documents', path: '/v2/documents' },
  one: { name: 'document', path: '/v2/documents/{id}' },
  table: 'documents',
  columns: [text('name'), text('text'), time('created_at'), time('updated_at')],
  children: [inputFields],
  otherFields: ['input_fields'],
  safeNames: ['field_id', 'field_type', 'required', 'page'],
  // An object is keyed by the names of the fields, which people type.
  freeMaps: { input_fields: ['name', 'label', 'field_type', 'type', 'required', 'page'] },
  // Messages and responses show its id.
  analysts: { views: [] },
  isOrdered: (record) => isObject(record.input_fields),
  isSummary: (record, apiVersion) => apiVersion !== '' && !('input_fields' in record),
}
