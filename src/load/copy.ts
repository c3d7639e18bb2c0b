/**
 * The text format of COPY, and sending it. Invariant: one line a row, one cell a tab; cells hold nothing that
 * Postgres cannot store (see core/storable), so encoding cannot fail.
 */
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import type { Cell } from '../streams/cell.ts'

const SPECIAL = /[\\\n\r\t]/

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** One cell as COPY text takes it. */
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

/** Runs `statement` (`copy … from stdin`) and sends it `lines`; without lines there is nothing to run. */
export async function sendCopy(client: pg.Client, statement: string, lines: Buffer): Promise<void> {
  if (lines.length === 0) return
  const stream = client.query(copyFrom(statement))
  stream.end(lines)
  await finished(stream)
}
