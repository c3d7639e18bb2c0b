/** A text table with aligned columns, numbers to the right. Invariant: two spaces between cells; nothing wraps. */
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
