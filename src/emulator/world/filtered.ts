/**
 * Filters a table by reading all of it.
 *
 * Invariant: the rows keep the order of the table; other requests are served every few thousand rows.
 */
import type { Listing, Row, Table } from './table.ts'

const TURN = 4000

export async function filtered<T extends Row>(
  table: Table<T>,
  matches: (row: T) => boolean,
): Promise<Listing<T>> {
  const found: T[] = []
  for (let token: number | null = 0; token !== null; ) {
    const { rows, next }: { rows: T[]; next: number | null } = table.scan(token, TURN)
    for (const row of rows) if (matches(row)) found.push(row)
    token = next
    if (token !== null) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    size: found.length,
    slice: (position, limit, newestFirst = false) =>
      (newestFirst ? found.toReversed() : found).slice(position, position + limit),
    scan: (token, limit) => ({
      rows: found.slice(token, token + limit),
      next: token + limit < found.length ? token + limit : null,
    }),
  }
}
