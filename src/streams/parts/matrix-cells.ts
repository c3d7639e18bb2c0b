/**
 * The rows of `response_matrix_cells`.
 *
 * Invariant: one row per cell, in order; cells with equal values are all kept.
 */

import type { Problem } from '../../core/envelope.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { type Child, column, firstOf, text } from '../stream.ts'
import { type Cell, readCell } from './cell.ts'
import { cellsOf, idOrText } from './parts.ts'
import { CELL_FIELDS, partsOf } from './response-parts.ts'

export const matrixCells: Child = {
  table: 'response_matrix_cells',
  parent: 'response_id',
  columns: ['position', 'question_id', 'row_id', 'row_text', 'column_id', 'column_text', 'value_text'],
  rows: (record, problems) =>
    partsOf(record, CELL_FIELDS, problems).map((cell) => [
      String(cell.position),
      cell.questionId,
      ...headingOf(cell.record, 'row', cell.path, problems),
      ...headingOf(cell.record, 'column', cell.path, problems),
      ...cellsOf(VALUE, cell.record, cell.path, problems),
    ]),
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
