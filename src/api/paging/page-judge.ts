/**
 * Decides which pages of a list to fetch, and whether the pages together are the whole list.
 *
 * Invariant: pages are judged in the order of their numbers, whatever order they arrive in. The verdict, the error and
 * the counts therefore depend on what the pages say, never on how fast each of them came.
 */
import { ShapeError } from '../errors.ts'
import { type Query, queryText, withOwn } from '../http/query.ts'
import { type Numbered, numberedRest } from './numbered.ts'
import type { Instability, ScanOutcome } from './page.ts'

/** What a page says about its list; its records are not kept. */
export interface PageFacts {
  readonly kind: 'page'
  /** From 1. */
  readonly number: number
  readonly records: number
  /** The service's count of the whole list, or null when it gives none. */
  readonly count: number | null
  /** Query of the next page, or null. */
  readonly next: string | null
  /** True when a page without a next page is the last one for sure. */
  readonly endKnown: boolean
  /** Null for an empty page. */
  readonly fingerprint: string | null
  /** False when a record does not satisfy the filter that was asked for. */
  readonly fits: boolean
}

export type Arrival =
  | PageFacts
  /** The service has no such page. */
  | { readonly kind: 'missing'; readonly number: number }
  | { readonly kind: 'failed'; readonly number: number; readonly error: unknown }

export interface PageRequest {
  readonly number: number
  readonly query: string
}

/** Empty pages with a `next` that are passed over before the scan gives up. */
const MOST_EMPTY_PAGES = 20

/** The gravest first: `reason` is the first of these that was seen. */
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
  readonly #own: Query | undefined
  readonly #size: number | undefined
  /** Arrived, but a page before them did not yet. */
  readonly #early = new Map<number, Arrival>()
  /** The lowest number among the pages with a fingerprint. */
  readonly #firstWith = new Map<string, number>()
  readonly #nextQueries = new Set<string>()
  readonly #signs = new Set<Instability>()
  /** The page to be judged next. */
  #turn = 1
  #requested = 0
  /** The last page that may be requested, as far as is known. */
  #upTo = 1
  /** An arrived page that may end the scan once its turn comes: nothing beyond it is requested meanwhile. */
  #suspect = Number.POSITIVE_INFINITY
  #query: string
  #rest: Numbered | null = null
  #empties = 0
  #guessing = false
  #isOver = false
  #reachedEnd = false
  #failure: { readonly number: number; readonly error: unknown } | null = null
  #count: number | null = null
  #pages = 0
  #records = 0

  /** `size` is the `page_size` that is part of `own`, if any. */
  constructor(path: string, own: Query | undefined, size: number | undefined) {
    this.#path = path
    this.#own = own
    this.#size = size
    this.#query = queryText(own).slice(1)
    this.#nextQueries.add(this.#query)
  }

  /** The next page to request, or null while none is to be. */
  next(): PageRequest | null {
    const last = Math.min(this.#upTo, this.#suspect)
    if (this.#isOver || this.#failure !== null || this.#requested >= last) return null
    const number = ++this.#requested
    const isNumbered = number > 1 && number <= (this.#rest?.pages ?? 0)
    return { number, query: isNumbered ? this.#rest!.queryOf(number) : this.#query }
  }

  arrived(arrival: Arrival): void {
    if (this.#isSuspect(arrival)) this.#suspect = Math.min(this.#suspect, arrival.number)
    this.#early.set(arrival.number, arrival)
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

  /** True when the pages that are still under way change nothing. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** The page that ended the scan with an error. */
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
    if (records > 0 || number === 1) this.#pages += 1
    this.#records += records
  }

  /** A page of a list whose pages were requested by their numbers. */
  #judgeNumbered({ number, records, next, endKnown }: PageFacts, rest: Numbered): void {
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
      if (this.#mayGoOn(page)) {
        this.#guessing = true
        this.#follow(withOwn(`page=${number + 1}`, this.#own))
      } else if (records === 0 && number > 1 && endKnown && this.#count !== null) this.#vanished()
      else this.#end()
      return
    }
    if (number === 1) {
      this.#rest = numberedRest(next, { size: records, count }, this.#own)
      if (this.#rest !== null) {
        this.#upTo = this.#rest.pages
        return
      }
    }
    if (records === 0) this.#empties += 1
    if (this.#empties >= MOST_EMPTY_PAGES) this.#vanished()
    else this.#follow(next)
  }

  /** A full page without a word on what follows, where a page size is configured: the next page is tried. */
  #mayGoOn({ endKnown, count, records }: PageFacts): boolean {
    if (this.#size === undefined || endKnown || records !== this.#size) return false
    return count === null || this.#records + records < count
  }

  #follow(next: string): void {
    const query = withOwn(next, this.#own)
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
