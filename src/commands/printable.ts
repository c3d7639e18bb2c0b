/**
 * Makes the service's text safe for a terminal, and aligns the columns of a table.
 *
 * Invariant: the result cannot move the cursor, change a color or break a line. Control characters and characters
 * that change the writing direction are escaped as `\xNN` and `\u{NNNN}`.
 */
import { stringify } from 'lossless-json'

/** C0, DEL and C1; zero-width and directional marks; line and paragraph separators. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

export function printable(text: string): string {
  return text.toWellFormed().replace(UNSAFE, (character) => {
    const code = character.charCodeAt(0)
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
  })
}

/** Any JSON value as one line; empty for null and undefined. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return ''
  return printable(typeof value === 'string' ? value : (stringify(value) ?? ''))
}

/** A text table, numbers to the right, two spaces between cells; nothing wraps. */
export function table(rows: readonly (readonly (string | number)[])[]): string {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, at) => {
      widths[at] = Math.max(widths[at] ?? 0, width(String(cell)))
    })
  }
  const lines = rows.map((row) =>
    row
      .map((cell, at) => padded(cell, widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}

function padded(cell: string | number, to: number): string {
  const gap = ' '.repeat(Math.max(0, to - width(String(cell))))
  return typeof cell === 'number' ? gap + cell : cell + gap
}

function width(text: string): number {
  return [...text].length
}
