/**
 * Layout of text output: cut, wrapped and colored on a terminal, unchanged in a pipe; and confirmation questions.
 *
 * Invariant: without a terminal nothing is cut, wrapped or colored, and asking fails, so that nothing is changed. NO_COLOR
 * turns colors off.
 */
import { createInterface } from 'node:readline/promises'
import type { Readable } from 'node:stream'
import { styleText } from 'node:util'
import { UsageError } from '../core/errors.ts'
import type { Context } from './context.ts'
import { table } from './printable.ts'

export type Color = 'red' | 'yellow' | 'green' | 'dim'

/** Width of the terminal in characters; null without a terminal. */
export function widthOf({ stdout }: Pick<Context, 'stdout'>): number | null {
  return stdout.isTTY === true ? Math.max(40, stdout.columns ?? 80) : null
}

export function colored(
  { stdout, env }: Pick<Context, 'stdout' | 'env'>,
  color: Color,
  text: string,
): string {
  if (stdout.isTTY !== true || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb') return text
  return styleText(color, text, { validateStream: false })
}

/** Blanks between two columns. */
const GAP = 2

type Row = readonly (string | number)[]

/**
 * A table that fits the terminal. Columns of `spare` are dropped as needed: first those without content, then the
 * others in their order, which a note lists. Then the column `flexible` is cut.
 */
export function fittedTable(
  context: Pick<Context, 'stdout'>,
  rows: readonly Row[],
  flexible: number,
  spare: readonly number[] = [],
): string {
  const width = widthOf(context)
  if (width === null || widestOf(rows) <= width) return table(rows)
  const idle = spare.filter((at) => rows.slice(1).every((row) => IDLE.has(String(row[at]))))
  const order = [...idle, ...spare.filter((at) => !idle.includes(at))]
  const out = new Set<number>()
  const kept = (row: Row) => row.filter((_, at) => !out.has(at))
  while (out.size < order.length && widestOf(rows.map(kept)) > width) out.add(order[out.size]!)
  const missed = [...out].filter((at) => !idle.includes(at)).map((at) => rows[0]![at])
  const note = missed.length === 0 ? '' : `(not shown here, but with --json: ${missed.join(', ')})`
  const over = widestOf(rows.map(kept)) - width
  const room = Math.max(8, longest(rows, flexible) - Math.max(0, over))
  const cells = rows.map((row) => kept(row.with(flexible, cut(row[flexible] ?? '', room))))
  const lines = table(cells).trimEnd().split('\n')
  return `${lines.map((line) => cut(line, width)).join('\n')}\n${note === '' ? '' : paragraph(context, note, 0)}`
}

/** Cells without content. */
const IDLE: ReadonlySet<string> = new Set(['0', '-', ''])

function widestOf(rows: readonly Row[]): number {
  const columns = rows[0]?.map((_, at) => longest(rows, at)) ?? []
  return columns.reduce((sum, each) => sum + each + GAP, -GAP)
}

function longest(rows: readonly Row[], at: number): number {
  return Math.max(...rows.map((row) => [...String(row[at] ?? '')].length))
}

function cut<Cell extends string | number>(cell: Cell, to: number): Cell | string {
  const characters = [...String(cell)]
  return characters.length <= to ? cell : `${characters.slice(0, to - 1).join('')}…`
}

/** Indents by `indent` blanks. On a terminal, wraps between words, and inside a word longer than a line. */
export function paragraph(context: Pick<Context, 'stdout'>, text: string, indent: number): string {
  const width = widthOf(context)
  const blank = ' '.repeat(indent)
  if (width === null) return `${blank}${text}\n`
  const room = Math.max(8, width - indent)
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ').flatMap((whole) => pieces(whole, room))) {
    if (line !== '' && [...line].length + 1 + [...word].length > room) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((each) => `${blank}${each}\n`).join('')
}

function pieces(word: string, room: number): readonly string[] {
  const characters = [...word]
  if (characters.length <= room) return [word]
  return Array.from({ length: Math.ceil(characters.length / room) }, (_, at) =>
    characters.slice(at * room, (at + 1) * room).join(''),
  )
}

/** Wraps paragraphs to the width of the terminal; indented lines are unchanged. */
export function reflowed(context: Pick<Context, 'stdout'>, text: string): string {
  if (widthOf(context) === null) return text
  const plain = /(?:^[^ \n][^\n]*\n?)+/gm
  return text.replace(plain, (lines) => {
    const end = lines.endsWith('\n') ? '\n' : ''
    return paragraph(context, lines.trimEnd().replaceAll('\n', ' '), 0).trimEnd() + end
  })
}

/** To the minute, in UTC. */
export function minute(time: string | Date | null): string {
  if (time === null) return '-'
  return (typeof time === 'string' ? time : time.toISOString()).slice(0, 16).replace('T', ' ')
}

/** `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`
}

export type Keyboard = Readable & { readonly isTTY?: boolean }

/** True for yes. Throws `UsageError` without a terminal, and the signal's reason on abort. */
export async function agrees(context: Context, keyboard: Keyboard, question: string): Promise<boolean> {
  const noTerminal = new UsageError(
    'this cannot be undone, and there is no terminal to ask at',
    'add --yes',
    '--yes',
    'confirmation_missing',
  )
  return /^y(?:es)?$/i.test(await answerTo(context, keyboard, `${question} [y/N]`, noTerminal))
}

/** The typed line, trimmed; empty at the end of the input. Throws `noTerminal` without a terminal. */
export async function answerTo(
  context: Context,
  keyboard: Keyboard,
  question: string,
  noTerminal: UsageError,
): Promise<string> {
  if (keyboard.isTTY !== true) throw noTerminal
  context.signal.throwIfAborted()
  const input = createInterface({ input: keyboard, terminal: false })
  const answered = new Promise<string>((resolve, reject) => {
    context.signal.addEventListener('abort', () => reject(context.signal.reason), { once: true })
    input.once('line', resolve)
    input.once('close', () => resolve(''))
  })
  context.stderr.write(`${question} `)
  try {
    return (await answered).trim()
  } finally {
    input.close()
  }
}
