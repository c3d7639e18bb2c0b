/**
 * Options, pages and outcome of a scan of a list, and its remaining pages as computed from the first.
 *
 * Invariant: only if the outcome is `complete` and `stable` may a missing id be checked as a possible delete (law 6).
 */
import type { Answer, Meter, RequestOptions } from '../http/answer.ts'
import { numberIn, type Query, withFilters, withNumber } from '../paths.ts'

/** Facts about a page, without its records. */
export interface PageFacts {
  readonly kind: 'page'
  /** From 1. */
  readonly number: number
  readonly records: number
  /** The service's count of the whole list, or null if it gives none. */
  readonly count: number | null
  /** Query of the next page, or null. */
  readonly next: string | null
  /** True when a page without a next page is the last one for sure. */
  readonly endKnown: boolean
  /** Null for an empty page. */
  readonly fingerprint: string | null
  /** False if a record does not satisfy the requested filter. */
  readonly fits: boolean
}

/** Pages of a scan that ended early, by their numbers: they were read, and their records are stored. */
export interface KeptPages {
  readonly first: PageFacts
  readonly pages: ReadonlyMap<number, PageFacts>
}

export type Arrival =
  | PageFacts
  /** The service has no such page. */
  | { readonly kind: 'missing'; readonly number: number }
  | { readonly kind: 'failed'; readonly number: number; readonly error: unknown }

export interface Page {
  /** From 1, in the order of the list; pages may arrive in another order. */
  readonly number: number
  readonly records: readonly unknown[]
  /** The service's count of the whole list, or null if it gives none. */
  readonly count: number | null
  /** Start of the request and arrival of the answer, in microseconds of our own clock. */
  readonly startedAt: number
  readonly receivedAt: number
  /** The `Date` header in milliseconds since 1970 of the service's clock, or null. */
  readonly serviceDate: number | null
  readonly invalidUtf8: boolean
  /** True if the page names no next page. */
  readonly last: boolean
  readonly facts: PageFacts
}

/** Signs that the pages are not the whole list, or not a single state of it. */
export type Instability =
  | 'count_drifted'
  | 'count_mismatch'
  | 'short_page'
  | 'rows_vanished'
  | 'page_repeated_while_changing'
  | 'filter_ignored'
  | 'not_finished'

export interface ScanOutcome {
  /** The scan reached the end of the list. */
  readonly complete: boolean
  /** No sign that the list changed while it was read. */
  readonly stable: boolean
  readonly count: number | null
  /** Pages and records up to the page that ended the scan; the scan may have yielded more. */
  readonly pages: number
  readonly records: number
  /** The most severe sign that the list is not stable. */
  readonly reason?: Instability
}

export interface PagesOptions {
  /** Key of the list in an envelope of the form `{"patients": […]}`. */
  readonly resource: string
  readonly query?: Query
  /** True if several records may share an id, as in a log: pages are then compared by all of their content. */
  readonly idsRepeat?: boolean
  /** Returns false for a record that does not satisfy the query: the service ignores the filter, and the scan ends. */
  readonly fits?: (record: unknown) => boolean
  /**
   * Reads the entries of a page; those that were cut out of its body are a `RawEntry` each. A `SyntaxError` has the
   * page requested again, and parsed as a whole. Without it, all entries are parsed.
   */
  readonly read?: (page: number, entries: readonly unknown[]) => Promise<readonly unknown[]>
  readonly meter?: Meter
  readonly signal?: AbortSignal
  readonly params?: { readonly [name: string]: string }
  /**
   * Pages that need not be read again, if the list still begins with the same first page and has the same count, and the
   * last of them is still the same: then nothing has moved across the place where the earlier scan ended.
   */
  readonly kept?: KeptPages
  /** Most pages requested at a time; the client's concurrency by default. */
  readonly concurrency?: number
  /** `page_size` of the first request; the client's by default, none if null. */
  readonly pageSize?: number | null
}

/** Pages in order of arrival. `outcome` is final when the iteration ends, and is also the generator's return value. */
export interface Scan extends AsyncGenerator<Page, ScanOutcome, undefined> {
  readonly outcome: ScanOutcome
  /** Whether the kept pages are part of the scan; null until that is known. First and last are read again. */
  readonly resumed: boolean | null
}

/** The part of a client that a scan needs. */
export interface Getter {
  readonly concurrency: number
  readonly pageSize: number | undefined
  get(path: string, options?: RequestOptions): Promise<Answer>
}

export interface NumberedPages {
  /** Number of pages, the first included. */
  readonly pages: number
  /** Records on each page but the last. */
  readonly size: number
  /** Query of the page with this number, from 2. */
  queryOf(number: number): string
}

/**
 * The remaining pages of a list, so that they can be requested in parallel; null if they cannot be computed. `size` is the
 * number of records on the first page, `count` its count of the list, `next` its link to the next page. The size is not the
 * requested one, since a service may cap or ignore `page_size`; if the first page and its link disagree about it, links
 * are followed one by one.
 */
export function numberedRest(
  next: string,
  { size, count }: { readonly size: number; readonly count: number | null },
  filters: Query | undefined,
): NumberedPages | null {
  if (count === null || size === 0) return null
  const pages = Math.ceil(count / size)
  if (pages < 2 || new URLSearchParams(next).has('cursor')) return null
  const query = withFilters(next, filters)

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
