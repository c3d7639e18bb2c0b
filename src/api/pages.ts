/**
 * Scans a list: every page of it, several at a time where the service tells the count, and a verdict on whether the
 * pages together can be believed to be the whole list.
 *
 *     first page ─► no next ───────────────────────────────────────────► end
 *         │ next=page|offset, count known ─► the rest, side by side ─► last one's next ─► follow ─► end
 *         └ otherwise ─────────────────────► follow next, one by one ─► end
 *
 * Invariant: at most `concurrency` pages are under way or waiting, beside the one the consumer holds. A page that
 * came before, or a `next` that did, ends the scan with an error, so a scan always ends. `complete && stable` is said
 * only of a scan whose pages were all full, all told the same count, and add up to it.
 */
import { setMaxListeners } from 'node:events'
import { ShapeError } from './errors.ts'
import { type Fetched, fetchPage, type Missing } from './fetch-page.ts'
import { type Numbered, numberedRest } from './numbered.ts'
import type { Getter, Page, PagesOptions, Scan, ScanOutcome, Unsteady } from './page.ts'
import { type Query, queryText, withOwn } from './query.ts'
import { fingerprintOf } from './repeats.ts'

export type { Getter, Page, PagesOptions, Scan, ScanOutcome, Unsteady } from './page.ts'

/** Empty pages with a `next` that are passed over before the scan gives up. */
const MOST_EMPTY_PAGES = 20

/** Reads the list at `path`. Throws `ApiError` (first page not there, credentials, …) and `ShapeError`. */
export function scanPages(client: Getter, path: string, options: PagesOptions): Scan {
  const state: State = { complete: false, reason: undefined, count: null, pages: 0, records: 0, ended: false }
  const outcome = (): ScanOutcome => {
    const reason = state.reason ?? (state.ended ? undefined : 'not_finished')
    const { complete, count, pages, records } = state
    return { complete, stable: reason === undefined, count, pages, records, ...(reason ? { reason } : {}) }
  }
  return Object.defineProperty(scan(client, path, options, state, outcome), 'outcome', {
    get: outcome,
  }) as Scan
}

interface State {
  complete: boolean
  reason: Unsteady | undefined
  count: number | null
  pages: number
  records: number
  ended: boolean
}

async function* scan(
  client: Getter,
  path: string,
  options: PagesOptions,
  state: State,
  outcome: () => ScanOutcome,
): AsyncGenerator<Page, ScanOutcome, undefined> {
  const width = Math.max(1, options.concurrency ?? client.concurrency)
  const stop = new AbortController()
  // Every page under way listens.
  setMaxListeners(0, stop.signal)
  const size = options.pageSize === undefined ? client.pageSize : (options.pageSize ?? undefined)
  const own = size === undefined ? options.query : withPageSize(options.query, size)
  const seenNext = new Set<string>()
  const seenPages = new Map<string, number>()
  const waiting = new Map<number, Promise<Fetched | Missing>>()
  let numbered: Numbered | null = null
  let nextNumber = 2
  let upTo = 1
  let follow: string | null = null
  let empties = 0
  let guessing = false

  const unsteady = (reason: Unsteady) => {
    state.reason ??= reason
  }

  function launch(number: number, query: string): void {
    const page = fetchPage(client, path, options, { number, query, signal: stop.signal })
    page.catch(() => {}) // taken below; a scan that is given up does not take it
    waiting.set(number, page)
  }

  function topUp(): void {
    while (numbered !== null && nextNumber <= upTo && waiting.size < width) {
      launch(nextNumber, numbered.queryOf(nextNumber))
      nextNumber += 1
    }
    if (follow !== null && waiting.size === 0 && nextNumber > upTo) {
      launch(nextNumber, follow)
      nextNumber += 1
      upTo = nextNumber - 1
      follow = null
    }
  }

  function followFrom(next: string): void {
    const query = withOwn(next, own)
    if (seenNext.has(query)) {
      throw repeated(path, 'the service gave the same next page twice')
    }
    seenNext.add(query)
    follow = query
  }

  function vanished(): void {
    unsteady('rows_vanished')
    upTo = Math.min(upTo, nextNumber - 1)
    follow = null
  }

  /** Judges a page and decides what is fetched after it; false when there is nothing to hand over. */
  function take(page: Fetched): boolean {
    const { list, number } = page
    const { records, next } = list
    if (number === 1) state.count = list.count
    else if (list.count !== null && list.count !== state.count) unsteady('count_drifted')

    if (records.length > 0) {
      empties = 0
      const fingerprint = fingerprintOf(records, options.idsRepeat)
      if (seenPages.has(fingerprint)) {
        if (state.reason !== 'count_drifted') throw repeated(path, 'the service gave the same page twice')
        unsteady('page_repeated_while_changing')
      }
      seenPages.set(fingerprint, number)
    }

    if (numbered !== null && number <= numbered.pages) {
      const isLast = number === numbered.pages
      if (records.length === 0) vanished()
      else if (!isLast && records.length !== numbered.size) unsteady('short_page')
      else if (!isLast && next === null && list.tells) unsteady('rows_vanished')
      if (isLast && records.length > 0) {
        if (next === null) state.complete = true
        else followFrom(next)
      }
      return records.length > 0
    }
    if (next === null) {
      const beyond = beyondBareList(page)
      if (beyond !== null) {
        guessing = true
        followFrom(beyond)
      } else if (records.length === 0 && number > 1 && list.tells && state.count !== null) {
        vanished()
      } else {
        state.complete = true
      }
      return records.length > 0 || number === 1
    }
    if (number === 1) {
      numbered = numberedRest(next, list, own)
      if (numbered !== null) {
        upTo = numbered.pages
        return true
      }
    }
    if (records.length === 0) {
      empties += 1
      if (empties >= MOST_EMPTY_PAGES) {
        vanished()
        return false
      }
    }
    followFrom(next)
    return records.length > 0 || number === 1
  }

  /** A full page without any word on what follows, where a paging parameter is configured: asks for the next. */
  function beyondBareList(page: Fetched): string | null {
    const { tells, count, records } = page.list
    if (size === undefined || tells || records.length !== size) return null
    if (count !== null && state.records + size >= count) return null
    return withOwn(`page=${page.number + 1}`, own)
  }

  const onAbort = () => stop.abort(options.signal?.reason)
  options.signal?.addEventListener('abort', onAbort, { once: true })
  try {
    options.signal?.throwIfAborted()
    const first = queryText(own).slice(1)
    seenNext.add(first)
    launch(1, first)
    while (waiting.size > 0) {
      const page = await Promise.race(waiting.values())
      waiting.delete(page.number)
      if ('missing' in page) {
        if (guessing) state.complete = true
        else vanished()
        topUp()
        continue
      }
      const handOver = take(page)
      topUp()
      if (!handOver) continue
      state.pages += 1
      state.records += page.list.records.length
      const { startedAt, receivedAt, serviceDate, invalidUtf8 } = page.answer
      yield {
        number: page.number,
        records: page.list.records,
        count: page.list.count,
        startedAt,
        receivedAt,
        serviceDate,
        invalidUtf8,
        last: page.list.next === null,
      }
    }
    if (state.reason === 'rows_vanished') state.complete = false
    if (state.count !== null && state.records !== state.count) unsteady('count_mismatch')
    state.ended = true
    return outcome()
  } finally {
    options.signal?.removeEventListener('abort', onAbort)
    stop.abort(new Error('the scan has ended'))
  }
}

function withPageSize(query: Query | undefined, size: number): Query {
  return withOwn(queryText(query).slice(1), { page_size: size })
}

function repeated(path: string, what: string): ShapeError {
  return new ShapeError(
    path,
    what,
    'page_repeated',
    'The list cannot be read to its end. Set or unset `pageSize` in the configuration; if it goes on, ask the service’s operators.',
  )
}
