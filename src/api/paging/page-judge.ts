/**
 * Decides which pages of a list to fetch, and whether the pages together are the whole list.
 *
 * Invariant: pages are judged in the order of their numbers, whatever order they arrive in. The outcome, the error and
 * the counts therefore depend only on the content of the pages, never on timing.
 */
import { ShapeError } from '../errors.ts'
import { type Query, queryText, withFilters } from '../paths.ts'
import { Resumption } from './kept-pages.ts'
import {
  type Arrival,
  type Instability,
  type KeptPages,
  type NumberedPages,
  numberedRest,
  type PageFacts,
  type ScanOutcome,
} from './page.ts'

export interface PageRequest {
  readonly number: number
  readonly query: string
}

/** Number of consecutive empty pages with a `next` after which the scan ends. */
const MAX_EMPTY_PAGES = 20

/** By severity, highest first: `reason` is the first of these that was seen. */
const RANKED: readonly Instability[] = [
  'filter_ignored',
  'rows_vanished',
  'page_repeated_while_changing',
  'count_drifted',
  'short_page',
  'count_mismatch',
]

export class PageJudge {
  readonly #path: string
  readonly #filters: Query | undefined
  readonly #size: number | undefined
  /** Pages that arrived before an earlier page. */
  readonly #early = new Map<number, Arrival>()
  /** For each fingerprint, the lowest number of a page with it. */
  readonly #firstWith = new Map<string, number>()
  readonly #nextQueries = new Set<string>()
  readonly #signs = new Set<Instability>()
  /** Number of the page to be judged next. */
  #turn = 1
  #requested = 0
  /** The last page that is known to exist, and so may be requested. */
  #upTo = 1
  /** An arrived page that may end the scan when it is judged. No later page is requested until then. */
  #suspect = Number.POSITIVE_INFINITY
  #query: string
  #rest: NumberedPages | null = null
  #empties = 0
  #guessing = false
  readonly #resumption: Resumption | null
  #isOver = false
  #reachedEnd = false
  #failure: { readonly number: number; readonly error: unknown } | null = null
  #count: number | null = null
  #pages = 0
  #records = 0

  /** `size` is the `page_size` that is part of `own`, if any. */
  constructor(path: string, filters: Query | undefined, size: number | undefined, kept?: KeptPages) {
    this.#resumption = kept === undefined ? null : new Resumption(kept)
    this.#path = path
    this.#filters = filters
    this.#size = size
    this.#query = queryText(filters).slice(1)
    this.#nextQueries.add(this.#query)
  }

  /** The next page to request, or null for none at present. */
  next(): PageRequest | null {
    if (this.#isOver || this.#failure !== null) return null
    const seam = this.#resumption?.seam ?? null
    if (seam !== null) return this.#resumption!.take(seam) ? this.#numbered(seam) : null
    do {
      if (this.#requested >= Math.min(this.#upTo, this.#suspect)) return null
      this.#requested += 1
    } while (this.#resumption?.isTaken(this.#requested) === true)
    const number = this.#requested
    const isNumbered = number > 1 && number <= (this.#rest?.pages ?? 0)
    return isNumbered ? this.#numbered(number) : { number, query: this.#query }
  }

  #numbered(number: number): PageRequest {
    return { number, query: this.#rest!.queryOf(number) }
  }

  arrived(arrival: Arrival): void {
    const atSeam = arrival.number === this.#resumption?.seam
    if (atSeam && arrival.kind === 'failed') {
      this.#failure = arrival
      return
    }
    for (const each of atSeam ? this.#resumption!.decide(arrival) : [arrival]) {
      if (this.#isSuspect(each)) this.#suspect = Math.min(this.#suspect, each.number)
      this.#early.set(each.number, each)
    }
    while (!this.#isOver && this.#failure === null) {
      const page = this.#early.get(this.#turn)
      if (page === undefined) return
      this.#early.delete(this.#turn)
      try {
        this.#judge(page)
      } catch (error) {
        this.#failure = { number: page.number, error }
        return
      }
      if (this.#turn === this.#suspect) this.#suspect = Number.POSITIVE_INFINITY
      this.#turn += 1
    }
  }

  /** Whether the kept pages count as read; null until that is known. */
  get resumed(): boolean | null {
    return this.#resumption?.resumed ?? null
  }

  /** True if pages still in flight cannot change the outcome. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** The error that ended the scan, and its page. */
  get failure(): { readonly number: number; readonly error: unknown } | null {
    return this.#failure
  }

  outcome(): ScanOutcome {
    const signs = new Set(this.#signs)
    if (this.#isOver && this.#count !== null && this.#records !== this.#count) signs.add('count_mismatch')
    const reason = RANKED.find((sign) => signs.has(sign)) ?? (this.#isOver ? undefined : 'not_finished')
    return {
      complete: this.#reachedEnd && !signs.has('rows_vanished'),
      stable: reason === undefined,
      count: this.#count,
      pages: this.#pages,
      records: this.#records,
      ...(reason === undefined ? {} : { reason }),
    }
  }

  #isSuspect(arrival: Arrival): boolean {
    if (arrival.kind !== 'page') return true
    const { number, fingerprint, fits } = arrival
    if (fingerprint === null) return number > 1
    const first = this.#firstWith.get(fingerprint)
    this.#firstWith.set(fingerprint, Math.min(number, first ?? number))
    return first !== undefined || !fits
  }

  #judge(page: Arrival): void {
    if (page.kind === 'failed') throw page.error
    if (page.kind === 'missing') {
      if (this.#guessing) this.#end()
      else this.#vanished()
      return
    }
    const { number, records, count, fingerprint } = page
    if (number === 1) this.#count = count
    else if (count !== null && count !== this.#count) this.#signs.add('count_drifted')
    if (fingerprint !== null && this.#firstWith.get(fingerprint)! < number) {
      if (!this.#signs.has('count_drifted')) throw this.#repeated('the service gave the same page twice')
      this.#signs.add('page_repeated_while_changing')
    }
    if (records > 0) this.#empties = 0
    if (!page.fits) {
      this.#signs.add('filter_ignored')
      this.#isOver = true
    } else if (this.#rest !== null && number <= this.#rest.pages) this.#judgeNumbered(page, this.#rest)
    else this.#judgeLinked(page)
    if (number === 1) this.#resumption?.firstJudged()
    if (records > 0 || number === 1) this.#pages += 1
    this.#records += records
  }

  /** A page of a list whose pages were requested by their numbers. */
  #judgeNumbered({ number, records, next, endKnown }: PageFacts, rest: NumberedPages): void {
    if (records === 0) this.#vanished()
    else if (number < rest.pages) {
      if (records !== rest.size) this.#signs.add('short_page')
      else if (next === null && endKnown) this.#signs.add('rows_vanished')
    } else if (next === null) this.#end()
    else this.#follow(next)
  }

  #judgeLinked(page: PageFacts): void {
    const { number, records, count, next, endKnown } = page
    if (next === null) {
      if (this.#mayHaveNextPage(page)) {
        this.#guessing = true
        this.#follow(withFilters(`page=${number + 1}`, this.#filters))
      } else if (records === 0 && number > 1 && endKnown && this.#count !== null) this.#vanished()
      else this.#end()
      return
    }
    if (number === 1) {
      this.#rest = numberedRest(next, { size: records, count }, this.#filters)
      if (this.#rest !== null) {
        this.#upTo = this.#rest.pages
        this.#resumption?.meet(page, this.#rest.pages)
        return
      }
    }
    if (records === 0) this.#empties += 1
    if (this.#empties >= MAX_EMPTY_PAGES) this.#vanished()
    else this.#follow(next)
  }

  /** With a configured page size, a full page without any link or count is followed by an attempt at the next page. */
  #mayHaveNextPage({ endKnown, count, records }: PageFacts): boolean {
    if (this.#size === undefined || endKnown || records !== this.#size) return false
    return count === null || this.#records + records < count
  }

  #follow(next: string): void {
    const query = withFilters(next, this.#filters)
    if (this.#nextQueries.has(query)) throw this.#repeated('the service gave the same next page twice')
    this.#nextQueries.add(query)
    this.#query = query
    this.#upTo = this.#turn + 1
  }

  #vanished(): void {
    this.#signs.add('rows_vanished')
    this.#isOver = true
  }

  #end(): void {
    this.#reachedEnd = true
    this.#isOver = true
  }

  #repeated(what: string): ShapeError {
    return new ShapeError(
      this.#path,
      what,
      'page_repeated',
      'The list cannot be read to its end. Set or unset `pageSize` in the configuration; if it goes on, ask the service’s operators.',
    )
  }
}
