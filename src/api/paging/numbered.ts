/**
 * The rest of a list whose first page tells the count and numbers its pages, so that they can be asked for side by
 * side.
 *
 * Invariant: the size of a page is what the first page really held, never what was asked for (a service may cap or
 * ignore `page_size`); whenever first page and link do not agree about it, there is no such rest, and links are
 * followed one by one.
 */
import { numberIn, type Query, withNumber, withOwn } from '../http/query.ts'

export interface Numbered {
  /** Number of pages, the first included. */
  readonly pages: number
  /** Records on each page but the last. */
  readonly size: number
  /** Query of the page with this number, from 2. */
  queryOf(number: number): string
}

/**
 * Null when the pages cannot be computed from the first one: its records (`size`), the count it told, and its link to
 * the next.
 */
export function numberedRest(
  next: string,
  { size, count }: { readonly size: number; readonly count: number | null },
  own: Query | undefined,
): Numbered | null {
  if (count === null || size === 0) return null
  const pages = Math.ceil(count / size)
  if (pages < 2 || new URLSearchParams(next).has('cursor')) return null
  const query = withOwn(next, own)

  const page = numberIn(next, 'page')
  const offset = numberIn(next, 'offset')
  if (page === 2 && offset === null) {
    return { pages, size, queryOf: (number) => withNumber(query, 'page', number) }
  }
  const limit = numberIn(next, 'limit')
  if (offset === size && page === null && (limit === null || limit === size)) {
    return { pages, size, queryOf: (number) => withNumber(query, 'offset', size * (number - 1)) }
  }
  return null
}
