/**
 * An export as JSON, row by row.
 *
 * Invariant: an empty cell is null, any other its text. In an object keyed by title a later column replaces an
 * earlier one with the same title; keys keep the order of the columns.
 */
import type { ExportTable } from '../http/answer.ts'

/** An array of objects keyed by title. */
export async function* jsonOf({ titles, rows }: ExportTable): AsyncGenerator<string> {
  const last = new Map(titles.map((title, at) => [title, at]))
  const members = [...last].map(([title, at]) => ({ name: `${JSON.stringify(title)}:`, at }))
  const object = (row: readonly string[]) =>
    `{${members.map(({ name, at }) => name + written(row[at]!)).join(',')}}`
  yield* listed(rows, object)
}

/** Arrays of cells, so that repeated titles lose no cell. */
export async function* jsonRowsOf({ titles, rows }: ExportTable): AsyncGenerator<string> {
  yield `{"headers":${JSON.stringify(titles)},"rows":`
  yield* listed(rows, (row) => `[${row.map(written).join(',')}]`)
  yield '}'
}

async function* listed(
  rows: ExportTable['rows'],
  write: (row: readonly string[]) => string,
): AsyncGenerator<string> {
  yield '['
  let comma = ''
  for await (const batch of rows) {
    yield comma + batch.map(write).join(',')
    comma = ','
  }
  yield ']'
}

function written(cell: string): string {
  return cell === '' ? 'null' : JSON.stringify(cell)
}
