/**
 * Draws the tables of `intake` and how they refer to each other, as an SVG image.
 *
 * Invariant: every table and reference of the catalogue is in it, and boxes do not overlap. A stream is to the right of those
 * that it refers to; the same catalogue gives the same image.
 */
import { ALL_STREAMS } from './catalogue.ts'
import type { Stream } from './stream.ts'

export interface Relation {
  /** The table that is referred to, by its id. */
  readonly one: string
  readonly many: string
  /** Column of `many`. */
  readonly by: string
}

/** From the declarations; no foreign key enforces them, because events arrive in any order. */
export const RELATIONS: readonly Relation[] = ALL_STREAMS.flatMap(({ table, columns, children, reading }) => [
  ...columns.flatMap(({ name, to }) =>
    to === undefined ? [] : [{ one: tableOf(to), many: table, by: name }],
  ),
  ...children.map((child) => ({ one: table, many: child.table, by: child.parent })),
  ...children.flatMap((child) =>
    Object.entries(child.references ?? {}).map(([by, to]) => ({ one: tableOf(to), many: child.table, by })),
  ),
  ...(reading?.kind === 'files' ? reading.tables : []).map(({ table: many }) => ({
    one: table,
    many,
    by: 'export_id',
  })),
])

function tableOf(name: string): string {
  return ALL_STREAMS.find((stream) => stream.name === name)!.table
}

interface Line {
  readonly text: string
  readonly kind: 'table' | 'reference' | 'columns'
  /** The table that a reference names. */
  readonly to?: string
}

interface Box {
  readonly stream: Stream
  readonly lines: readonly Line[]
  readonly x: number
  readonly y: number
}

const WIDTH = 290
const GAP = { x: 90, y: 26 }
const MARGIN = 20
const LINE = 17
const CHARACTERS = 39

export function entityDiagram(): string {
  const boxes = place()
  const right = Math.max(...boxes.map(({ x }) => x + WIDTH)) + MARGIN
  const bottom = Math.max(...boxes.map((box) => box.y + heightOf(box))) + MARGIN
  const edges = boxes.flatMap((box) =>
    box.lines.flatMap(({ to }, at) => (to === undefined ? [] : [edge(boxes, box, at, to)])),
  )
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${right} ${bottom}" width="${right}" height="${bottom}" role="img">`,
    '<title>Tables of the schema intake</title>',
    '<desc>Each box is a stream with its tables; a line leads from a table to the column that names its records.</desc>',
    `<rect width="${right}" height="${bottom}" fill="#ffffff"/>`,
    ...edges,
    ...boxes.flatMap(draw),
    '</svg>',
  ].join('\n')}\n`
}

/** One column of boxes for each length of the longest chain of references. */
function place(): readonly Box[] {
  const boxes: Box[] = []
  const bottoms: number[] = []
  for (const stream of ALL_STREAMS) {
    const column = depthOf(stream)
    const y = bottoms[column] ?? MARGIN
    const box = { stream, lines: linesOf(stream), x: MARGIN + column * (WIDTH + GAP.x), y }
    bottoms[column] = y + heightOf(box) + GAP.y
    boxes.push(box)
  }
  return boxes
}

function depthOf(stream: Stream): number {
  const own = new Set(tablesOf(stream))
  const before = RELATIONS.filter(({ one, many }) => own.has(many) && !own.has(one)).map(
    ({ one }) => ALL_STREAMS.find(({ table }) => table === one)!,
  )
  return before.length === 0 ? 0 : 1 + Math.max(...before.map(depthOf))
}

function tablesOf({ table, children, reading }: Stream): readonly string[] {
  const files = reading?.kind === 'files' ? reading.tables : []
  return [table, ...children.map((child) => child.table), ...files.map((file) => file.table)]
}

function linesOf({ table, columns, children, reading }: Stream): readonly Line[] {
  const files = reading?.kind === 'files' ? reading.tables : []
  return [
    ...tableLines(table, ['id', ...columns.map(({ name }) => name)]),
    ...children.flatMap((child) => tableLines(child.table, [child.parent, ...child.columns], table)),
    ...files.flatMap((file) => tableLines(file.table, ['export_id', ...file.columns], table)),
  ]
}

/** References within the box need no line. */
function tableLines(table: string, columns: readonly string[], parent?: string): readonly Line[] {
  const references = RELATIONS.filter(({ one, many }) => many === table && one !== parent)
  const others = [...new Set(columns)].filter((name) => !references.some(({ by }) => by === name))
  return [
    { text: table, kind: 'table' },
    ...references.map(({ one, by }): Line => ({ text: by, kind: 'reference', to: one })),
    ...wrapped(others).map((text): Line => ({ text, kind: 'columns' })),
  ]
}

function wrapped(names: readonly string[]): readonly string[] {
  const lines: string[] = []
  for (const [at, name] of names.entries()) {
    const text = at === names.length - 1 ? name : `${name},`
    const last = lines.at(-1)
    if (last === undefined || last.length + text.length + 1 > CHARACTERS) lines.push(text)
    else lines[lines.length - 1] = `${last} ${text}`
  }
  return lines
}

function heightOf({ lines }: Pick<Box, 'lines'>): number {
  return lines.length * LINE + 12
}

function middleOf(box: Box, line: number): number {
  return box.y + 6 + line * LINE + LINE / 2
}

function edge(boxes: readonly Box[], to: Box, line: number, table: string): string {
  const from = boxes.find(({ stream }) => stream.table === table)!
  const [x1, y1, x2, y2] = [from.x + WIDTH, middleOf(from, 0), to.x, middleOf(to, line)]
  const bend = GAP.x * 0.8
  return (
    `<path d="M ${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}" fill="none" stroke="#94a3b8" stroke-width="1.5"/>` +
    `<circle cx="${x2}" cy="${y2}" r="3" fill="#475569"/>`
  )
}

const STYLE = {
  table: 'font-weight="bold" fill="#0f172a"',
  reference: 'fill="#1d4ed8"',
  columns: 'fill="#475569"',
} as const

function draw(box: Box): readonly string[] {
  const { x, y, lines } = box
  return [
    `<rect x="${x}" y="${y}" width="${WIDTH}" height="${heightOf(box)}" rx="6" fill="#f8fafc" stroke="#64748b"/>`,
    ...lines.map(({ text, kind, to }, at) => {
      const inset = kind === 'table' ? 10 : 18
      const shown = to === undefined ? text : `${text} → ${to}`
      return `<text x="${x + inset}" y="${middleOf(box, at) + 4}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11" ${STYLE[kind]}>${shown}</text>`
    }),
  ]
}
