/**
 * The text format of COPY. Invariant: one line per row, cells separated by tabs; cells contain only text that Postgres can
 * store (see core/storable), so encoding cannot fail.
 */
import type { Cell } from '../streams/parts/cell.ts'

const SPECIAL = /[\\\n\r\t]/

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** One cell in the text format of COPY. */
export function copyCell(cell: Cell): string {
  if (cell === null) return '\\N'
  return SPECIAL.test(cell) ? cell.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character]!) : cell
}

/** The cells of a row, joined; no line end. */
export function copyCells(cells: readonly Cell[]): string {
  let line = ''
  for (let at = 0; at < cells.length; at++) line += (at === 0 ? '' : '\t') + copyCell(cells[at]!)
  return line
}
