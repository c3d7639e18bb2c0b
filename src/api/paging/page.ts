/**
 * What a scan of a list is asked for and hands over.
 *
 * Invariant: an outcome that is `complete` and `stable` is the only ground on which a missing id may be looked into
 * as a delete (law 6).
 */
import type { Answer, Meter, RequestOptions } from '../http/answer.ts'
import type { Query } from '../http/query.ts'

export interface Page {
  /** From 1, in the order of the list; pages may come in another order. */
  readonly number: number
  readonly records: readonly unknown[]
  /** The service's count of the whole list, or null when it gives none. */
  readonly count: number | null
  /** Microseconds of our own clock: when the request was started, and when its answer was there. */
  readonly startedAt: number
  readonly receivedAt: number
  /** The `Date` header in milliseconds since 1970 of the service's clock, or null. */
  readonly serviceDate: number | null
  readonly invalidUtf8: boolean
  /** True when the service said that nothing follows this page. */
  readonly last: boolean
}

/** Signs that the pages are not the whole list, or not one state of it. */
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
  /** No sign that the list changed meanwhile. */
  readonly stable: boolean
  readonly count: number | null
  /** Pages and records up to the one that ended the scan; more may have been handed over. */
  readonly pages: number
  readonly records: number
  /** The gravest sign against it. */
  readonly reason?: Instability
}

export interface PagesOptions {
  /** Key of the list in an envelope of the form `{"patients": […]}`. */
  readonly resource: string
  readonly query?: Query
  /** True where several records may share an id, as the attempts of a log do: pages are then compared whole. */
  readonly idsRepeat?: boolean
  /** False for a record that the query must not let through: the filter is not believed, and the scan ends. */
  readonly fits?: (record: unknown) => boolean
  readonly meter?: Meter
  readonly signal?: AbortSignal
  readonly params?: { readonly [name: string]: string }
  /** Pages under way at a time; the client's concurrency when left out. */
  readonly concurrency?: number
  /** `page_size` of the first request; the client's when left out, none when null. */
  readonly pageSize?: number | null
}

/** Pages as they come; `outcome` is final once the iteration has ended, and is the generator's return value too. */
export interface Scan extends AsyncGenerator<Page, ScanOutcome, undefined> {
  readonly outcome: ScanOutcome
}

/** The part of a client that a scan needs. */
export interface Getter {
  readonly concurrency: number
  readonly pageSize: number | undefined
  get(path: string, options?: RequestOptions): Promise<Answer>
}
