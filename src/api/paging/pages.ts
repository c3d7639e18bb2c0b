/**
 * Scans a list: reads all of its pages, in parallel if the service gives a count, and decides whether the pages together
 * are the whole list.
 *
 *     first page ─► no next ───────────────────────────────────────────► end
 *         │ next=page|offset, count known ─► the rest in parallel ─► next of the last page ─► follow ─► end
 *         └ otherwise ─────────────────────► follow next, one by one ─► end
 *
 * Invariant: at most `concurrency` pages are requested or buffered, plus the one that the consumer has. A repeated page
 * or a repeated `next` ends the scan with an error, so a scan always ends. An outcome is `complete && stable` only if
 * all pages were full, had the same count, and add up to it. The scan yields pages as they arrive; the outcome does not
 * depend on the order of arrival (page-judge.ts).
 */
import { createHash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { isLosslessNumber, isObject } from '../../core/json.ts'
import { ApiError, ShapeError } from '../errors.ts'
import type { Answer, RequestOptions } from '../http/answer.ts'
import { type Query, queryText, withFilters } from '../paths.ts'
import { type ListBody, readList } from './list-envelope.ts'
import type { Arrival, Getter, Page, PageFacts, PagesOptions, Scan, ScanOutcome } from './page.ts'
import { PageJudge, type PageRequest } from './page-judge.ts'

export type {
  Getter,
  Instability,
  KeptPages,
  Page,
  PageFacts,
  PagesOptions,
  Scan,
  ScanOutcome,
} from './page.ts'

/** Reads the list at `path`. Throws `ApiError` (first page not found, credentials, …) and `ShapeError`. */
export function scanPages(client: Getter, path: string, options: PagesOptions): Scan {
  const size = options.pageSize === undefined ? client.pageSize : (options.pageSize ?? undefined)
  const query = size === undefined ? options.query : withPageSize(options.query, size)
  const judge = new PageJudge(path, query, size, options.kept)
  return Object.defineProperties(scan(client, path, options, judge), {
    outcome: { get: () => judge.outcome() },
    resumed: { get: () => judge.resumed },
  }) as Scan
}

interface JudgedPage {
  readonly arrival: Arrival
  /** Null if there is no page to yield. */
  readonly page: Page | null
}

async function* scan(
  client: Getter,
  path: string,
  options: PagesOptions,
  judge: PageJudge,
): AsyncGenerator<Page, ScanOutcome, undefined> {
  const width = Math.max(1, options.concurrency ?? client.concurrency)
  const stop = new AbortController()
  // Every page in flight adds a listener.
  setMaxListeners(0, stop.signal)
  const waiting = new Map<number, Promise<JudgedPage>>()

  function request(): void {
    while (waiting.size < width) {
      const next = judge.next()
      if (next === null) return
      waiting.set(next.number, land(client, path, options, next, stop.signal))
    }
  }

  const onAbort = () => stop.abort(options.signal?.reason)
  options.signal?.addEventListener('abort', onAbort, { once: true })
  try {
    options.signal?.throwIfAborted()
    request()
    while (waiting.size > 0 && !judge.isOver) {
      const { arrival, page } = await Promise.race(waiting.values())
      waiting.delete(arrival.number)
      judge.arrived(arrival)
      request()
      const { failure } = judge
      if (page !== null && failure?.number !== page.number) yield page
      if (failure !== null) throw failure.error
    }
    return judge.outcome()
  } finally {
    options.signal?.removeEventListener('abort', onAbort)
    stop.abort(new Error('the scan has ended'))
  }
}

/** Never rejects: a failure takes effect when its page is judged. */
async function land(
  client: Getter,
  path: string,
  options: PagesOptions,
  { number, query }: PageRequest,
  signal: AbortSignal,
): Promise<JudgedPage> {
  try {
    const fetched = await fetchPage(client, path, options, { number, query, signal })
    if ('missing' in fetched) return { arrival: { kind: 'missing', number }, page: null }
    const { records, count, next, endKnown } = fetched.list
    const { startedAt, receivedAt, serviceDate, invalidUtf8 } = fetched.answer
    const fingerprint = records.length === 0 ? null : fingerprintOf(records, options.idsRepeat)
    const { fits } = options
    const arrival: PageFacts = {
      ...{ kind: 'page', number, records: records.length, count, next, endKnown, fingerprint },
      fits: fits === undefined || records.every(fits),
    }
    if (records.length === 0 && number > 1) return { arrival, page: null }
    const times = { startedAt, receivedAt, serviceDate }
    const last = next === null
    return { arrival, page: { number, records, count, ...times, invalidUtf8, last, facts: arrival } }
  } catch (error) {
    return { arrival: { kind: 'failed', number, error }, page: null }
  }
}

function withPageSize(query: Query | undefined, size: number): Query {
  return withFilters(queryText(query).slice(1), { page_size: size })
}

/**
 * One page of a list, requested and read.
 *
 * Invariant: beyond the first page "not there" speaks of the page (rows vanished, a cursor ran out) and not of the list; an
 * answer that holds no list is never taken for an empty one.
 */
export interface FetchedPage {
  readonly number: number
  readonly query: string
  readonly answer: Answer
  readonly list: ListBody
}

export interface MissingPage {
  readonly number: number
  readonly missing: true
}

/** The page of this number, which `query` requests. Throws `ApiError` and `ShapeError`. */
async function fetchPage(
  client: Getter,
  path: string,
  { read, ...options }: PagesOptions,
  request: { readonly number: number; readonly query: string; readonly signal: AbortSignal },
): Promise<FetchedPage | MissingPage> {
  const { params, meter, resource } = options
  const { number, query, signal } = request
  const call: RequestOptions = {
    ...{ query, signal, as: read ? 'entries' : 'json' },
    ...(params ? { params } : {}),
    ...(meter ? { meter } : {}),
  }
  try {
    const answer = await client.get(path, call)
    const list = readList(answer.body, answer.headers, resource, path)
    if (list === null) {
      throw new ShapeError(
        path,
        'the answer contains no list',
        'list_unreadable',
        'Check INTAKE_BASE_URL and `paths` in the configuration.',
      )
    }
    if (read === undefined) return { number, query, answer, list }
    return { number, query, answer, list: { ...list, records: await read(number, list.records) } }
  } catch (error) {
    // An entry is not JSON: the page is requested again and parsed as a whole, which retries it like any broken body.
    if (error instanceof SyntaxError) return await fetchPage(client, path, options, request)
    const vanished = error instanceof ApiError && number > 1 && (error.status === 404 || error.status === 400)
    if (vanished) return { number, missing: true }
    throw error
  }
}

/**
 * Fingerprints of pages, to detect repeated ones.
 *
 * Invariant: two pages have the same fingerprint only if they contain the same ids in the same order (the same records,
 * where records have no id or may share one). A fingerprint has 22 characters, whatever the size of the page.
 */
function fingerprintOf(records: readonly unknown[], idsRepeat = false): string {
  const marks = records.map((record) => {
    const id = isObject(record) && !idsRepeat ? (record.id ?? record.uid) : undefined
    // A number is the same id as its text.
    if (typeof id === 'string' || typeof id === 'number') return `s${id}`
    if (isLosslessNumber(id)) return `n${id}`
    return `r${JSON.stringify(record)}`
  })
  return createHash('sha256').update(JSON.stringify(marks)).digest('base64').slice(0, 22)
}
