/** Figures and times as texts, and small charts as SVG. Invariant: the SVG consists of numbers and names of our own only. */

export function count(value: number | null): string {
  return value === null ? '–' : value.toLocaleString('en-US')
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** `2026-11-22 22:14 UTC`. */
export function minute(time: string | Date | null): string {
  if (time === null) return '–'
  return `${(typeof time === 'string' ? new Date(time) : time).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** `40 s`, `12 min`, `3 h`, `8 d`. */
export function duration(seconds: number | null): string {
  if (seconds === null) return '–'
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

export interface Bar {
  readonly value: number
  /** A class of the style sheet. */
  readonly kind: 'plain' | 'good' | 'warn' | 'bad'
  /** What a pointer shows. Only figures, times and words of our own. */
  readonly title: string
}

const WIDTH = 6
const HEIGHT = 28

/** A row of bars, the newest last; a bar that is not zero is always visible. */
export function bars(all: readonly Bar[], label: string): string {
  const most = Math.max(1, ...all.map(({ value }) => value))
  const shapes = all.map(({ value, kind, title }, at) => {
    const height = heightOf(value, most)
    const place = `x="${at * WIDTH}" y="${HEIGHT - height}" width="${WIDTH - 1}" height="${height}"`
    return `<rect class="${kind}" ${place}><title>${escaped(title)}</title></rect>`
  })
  return chart(all.length, label, shapes.join(''))
}

/** Bars of the last days, today last: one shape, for there are as many as there are teams. */
export function days(values: readonly number[], what: string): string {
  const total = values.reduce((sum, each) => sum + each, 0)
  const most = Math.max(1, ...values)
  const label = `${what} per day for ${values.length} days: ${count(total)} in all, at most ${count(Math.max(0, ...values))} a day`
  const shape = values.map((value, at) => {
    const height = heightOf(value, most)
    return `M${at * WIDTH} ${HEIGHT}v-${height}h${WIDTH - 1}v${height}z`
  })
  return chart(values.length, label, `<title>${escaped(label)}</title><path d="${shape.join('')}"/>`)
}

function heightOf(value: number, most: number): number {
  return value === 0 ? 1 : Math.max(3, Math.round((value / most) * HEIGHT))
}

function chart(places: number, label: string, shapes: string): string {
  const width = Math.max(1, places) * WIDTH
  const size = `width="${width}" height="${HEIGHT}" viewBox="0 0 ${width} ${HEIGHT}"`
  return `<svg class="bars" role="img" aria-label="${escaped(label)}" ${size}>${shapes}</svg>`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
