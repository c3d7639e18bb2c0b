/**
 * Text for whoever reads it: cut, wrapped and coloured on a terminal, whole and plain in a pipe.
 *
 * Invariant: off a terminal nothing is cut, wrapped or coloured; NO_COLOR is heard.
 */
import { styleText } from 'node:util'
import type { Context } from './context.ts'
import { table } from './table.ts'

export type Colour = 'red' | 'yellow' | 'green' | 'dim'

/** Columns of the terminal; null where there is none. */
export function widthOf({ stdout }: Pick<Context, 'stdout'>): number | null {
  return stdout.isTTY === true ? Math.max(40, stdout.columns ?? 80) : null
}

export function painted(
  { stdout, env }: Pick<Context, 'stdout' | 'env'>,
  colour: Colour,
  text: string,
): string {
  if (stdout.isTTY !== true || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb') return text
  return styleText(colour, text, { validateStream: false })
}

/** Blanks between two columns. */
const GAP = 2

/** A table whose column `flexible` gives way where its lines are wider than the terminal. */
export function fittedTable(
  context: Pick<Context, 'stdout'>,
  rows: readonly (readonly (string | number)[])[],
  flexible: number,
): string {
  const width = widthOf(context)
  const lengths = rows.map((row) => row.map((cell) => [...String(cell)].length))
  const widths = (lengths[0] ?? []).map((_, at) => Math.max(...lengths.map((row) => row[at] ?? 0)))
  const widest = widths.reduce((sum, each) => sum + each + GAP, -GAP)
  if (width === null || widest <= width) return table(rows)
  const room = Math.max(8, (widths[flexible] ?? 0) - (widest - width))
  return table(rows.map((row) => row.map((cell, at) => (at === flexible ? cut(String(cell), room) : cell))))
}

function cut(text: string, to: number): string {
  const letters = [...text]
  return letters.length <= to ? text : `${letters.slice(0, to - 1).join('')}…`
}

/** Lines that begin with `indent` blanks, broken between words on a terminal. */
export function paragraph(context: Pick<Context, 'stdout'>, text: string, indent: number): string {
  const width = widthOf(context)
  const blank = ' '.repeat(indent)
  if (width === null) return `${blank}${text}\n`
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent + line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((each) => `${blank}${each}\n`).join('')
}

/** To the minute, in UTC. */
export function minute(time: string | Date | null): string {
  if (time === null) return '-'
  return (typeof time === 'string' ? time : time.toISOString()).slice(0, 16).replace('T', ' ')
}

/** `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function spell(seconds: number): string {
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`
}
