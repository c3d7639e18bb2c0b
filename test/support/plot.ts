/** A plot as SVG: panels one below the other over the same horizontal axis, each with one line or several. */

export interface Line {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

export interface Panel {
  readonly title: string
  readonly lines: readonly Line[]
}

export interface Plot {
  readonly title: string
  readonly xTitle: string
  /** Powers of ten have equal distances. */
  readonly isLogX?: boolean
  readonly panels: readonly Panel[]
}

const WIDTH = 760
const HEIGHT = 130
const LEFT = 64
const RIGHT = 20
const GAP = 40
const TOP = 46
const COLOURS = ['#0969da', '#bc4c00', '#1a7f37', '#8250df']

export function plotSvg({ title, xTitle, isLogX = false, panels }: Plot): string {
  const xs = panels.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(([x]) => x)))
  const scaled = (x: number) => (isLogX ? Math.log10(x) : x)
  const [from, to] = [Math.min(...xs.map(scaled)), Math.max(...xs.map(scaled))]
  const place = (x: number) => LEFT + ((scaled(x) - from) / (to - from || 1)) * (WIDTH - LEFT - RIGHT)
  const height = TOP + panels.length * (HEIGHT + GAP) + 10
  const drawn = panels.map((panel, at) => drawPanel(panel, TOP + at * (HEIGHT + GAP), place))
  const bottom = TOP + panels.length * (HEIGHT + GAP) - GAP
  const marks = isLogX ? powersOfTen(from, to) : steps(from, to)
  const axis = marks.map((x) => text(place(x), bottom + 16, count(x), 'middle'))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="${LEFT}" y="20" font-size="14" font-weight="bold" fill="#1f2328">${escaped(title)}</text>`,
    ...drawn,
    ...axis,
    text(WIDTH - RIGHT, bottom + 30, xTitle, 'end'),
    '</svg>\n',
  ].join('\n')
}

function drawPanel({ title, lines }: Panel, top: number, place: (x: number) => number): string {
  const highest = Math.max(...lines.flatMap(({ points }) => points.map(([, y]) => y)), 0) * 1.1 || 1
  const level = (y: number) => top + HEIGHT - (y / highest) * HEIGHT
  const marks = steps(0, highest, 4).flatMap((y) => [
    `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${fixed(level(y))}" y2="${fixed(level(y))}" stroke="#d1d9e0"/>`,
    text(LEFT - 6, level(y) + 4, count(y), 'end'),
  ])
  const paths = lines.flatMap(({ name, points }, at) => {
    const colour = COLOURS[at % COLOURS.length]
    const path = points.map(([x, y]) => `${fixed(place(x))},${fixed(level(y))}`).join(' ')
    const legend = lines.length < 2 ? [] : [text(WIDTH - RIGHT - at * 130, top - 6, name, 'end', colour)]
    return [`<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="1.5"/>`, ...legend]
  })
  return [text(LEFT, top - 6, title, 'start'), ...marks, ...paths].join('\n')
}

/** Round numbers within the range. */
function steps(from: number, to: number, about = 6): readonly number[] {
  const rough = (to - from || 1) / about
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough)!
  const first = Math.ceil(from / step)
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, at) => (first + at) * step)
}

function powersOfTen(from: number, to: number): readonly number[] {
  const first = Math.ceil(from)
  return Array.from({ length: Math.floor(to) - first + 1 }, (_, at) => 10 ** (first + at))
}

function text(x: number, y: number, words: string, anchor: string, colour = '#59636e'): string {
  return `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}" fill="${colour}">${escaped(words)}</text>`
}

const fixed = (value: number) => String(Math.round(value * 10) / 10)
const count = (value: number) => Number(value.toPrecision(6)).toLocaleString('en-GB')
const escaped = (words: string) => words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
