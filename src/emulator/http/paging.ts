/**
 * One page of a list.
 *
 * Invariant: walking `next` from the first page shows every row exactly once as long as nothing is created or deleted
 * and no fault applies; `count` is the number of rows that match.
 */
import type { Listing } from '../world/table.ts'
import { type Answer, failure, type JsonRecord, type Resource } from './answer.ts'
import type { Call } from './call.ts'

const GREATEST_PAGE_SIZE = 1000

export function listPage<T>(
  call: Call,
  resource: Resource,
  listing: Listing<T>,
  filters: readonly string[],
  show: (row: T) => JsonRecord,
): Answer {
  const { query, shape, faults } = call
  const { paging } = shape
  const known = new Set(['page', 'page_size', 'limit', 'offset', 'cursor', ...filters])
  const unknown = [...query.keys()].find((name) => !known.has(name))
  if (unknown !== undefined && paging.unknownParameters === 'refused') {
    return failure(400, 'Validation error.', unknown)
  }
  const answer = (rows: T[], next: Link, previous: Link): Answer => {
    const shown = withRowFaults(rows, faults).map(show)
    const extra = faults.has('wrong-count') ? Number(faults.get('wrong-count') ?? 7) : 0
    const count = Math.max(0, listing.size + extra)
    return {
      type: 'page',
      resource,
      rows: shown,
      count,
      next: nextUrl(call, next),
      previous: urlOf(call, previous),
    }
  }
  if (paging.style === 'cursor') {
    const token = readCursor(query.get('cursor'))
    if (token === undefined) return failure(paging.badCursor, 'Invalid cursor')
    const { rows, next } = listing.scan(token, sizeOf(call, 'page_size'))
    return answer(rows, next === null ? null : { cursor: writeCursor(next) }, null)
  }
  const byOffset = query.has('limit') || query.has('offset')
  if (paging.style === 'whole' && !byOffset && !query.has('page')) {
    return answer(listing.slice(0, listing.size, paging.newestFirst), null, null)
  }
  if (paging.style === 'limit-offset' || byOffset) {
    const limit = sizeOf(call, 'limit')
    const offset = wholeNumber(query.get('offset')) ?? 0
    const rows = listing.slice(shifted(offset, limit, call), limit, paging.newestFirst)
    const queryAt = (start: number) => ({ limit: String(limit), offset: String(start) })
    const next = offset + limit < listing.size ? queryAt(offset + limit) : null
    return answer(rows, next, offset > 0 ? queryAt(Math.max(0, offset - limit)) : null)
  }
  const size = sizeOf(call, 'page_size')
  const pages = Math.max(1, Math.ceil(listing.size / size))
  const requested = query.get('page') ?? '1'
  const page = requested === 'last' ? pages : wholeNumber(requested)
  const exists = page !== undefined && page >= 1 && page <= pages
  if (!exists && (page === undefined || page < 1 || paging.pastEnd === 'not-found')) {
    return failure(404, 'Invalid page.')
  }
  const rows = listing.slice(shifted((page - 1) * size, size, call), size, paging.newestFirst)
  return answer(
    rows,
    page < pages ? { page: String(page + 1) } : null,
    page > 1 ? { page: String(page - 1) } : null,
  )
}

/** Query parameters of a link; they replace the paging parameters of the request. */
type Link = Readonly<Record<string, string>> | null

function urlOf(call: Call, link: Link, origin = call.origin): string | null {
  if (link === null) return null
  const query = new URLSearchParams(call.query)
  for (const [name, value] of Object.entries(link)) query.set(name, value)
  return call.shape.next(`${origin}${call.path}?${query}`)
}

function nextUrl(call: Call, link: Link): string | null {
  if (link === null) return null
  if (call.faults.has('next-loop')) return call.shape.next(`${call.origin}${call.path}?${call.query}`)
  return call.faults.has('next-elsewhere') ? urlOf(call, link, call.elsewhere) : urlOf(call, link)
}

function sizeOf({ query, shape, defaultPageSize }: Call, name: string): number {
  const requested = shape.paging.pageSize === 'ignored' ? undefined : wholeNumber(query.get(name))
  if (requested === undefined || requested < 1) return defaultPageSize
  return Math.min(requested, Math.max(GREATEST_PAGE_SIZE, defaultPageSize))
}

function wholeNumber(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

function shifted(position: number, size: number, { faults }: Call): number {
  if (position === 0) return 0
  if (faults.has('repeat-page')) return Math.max(0, position - size)
  if (!faults.has('shift-rows')) return position
  return Math.floor(position / size) % 2 === 0 ? position + 1 : position - 1
}

function withRowFaults<T>(rows: T[], faults: Call['faults']): T[] {
  const dropped = faults.has('drop-rows') ? rows.toSpliced(Math.floor(rows.length / 2), 1) : rows
  return faults.has('duplicate-rows') ? [...dropped, ...dropped.slice(0, 1)] : dropped
}

function writeCursor(token: number): string {
  return Buffer.from(`p=${token}`).toString('base64url')
}

function readCursor(text: string | null): number | undefined {
  if (text === null) return 0
  const match = /^p=(\d{1,15})$/.exec(Buffer.from(text, 'base64url').toString())
  return match === null ? undefined : Number(match[1])
}
