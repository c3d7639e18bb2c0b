/**
 * Computes the remaining pages of a list from its first page, if that has a count and a numbered link, so that the pages
 * can be requested in parallel.
 *
 * Invariant: the page size is the number of records on the first page, not the requested size, since a service may cap
 * or ignore `page_size`. If the first page and its link disagree about the size, links are followed one by one.
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
 * Null if the pages cannot be computed. `size` is the number of records on the first page, `count` its count of the list,
 * `next` its link to the next page.
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
