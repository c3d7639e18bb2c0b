/**
 * Reads a list answer in any envelope (specification: not shown): `{count, next, results}`, a bare array, `{data}`,
 * `{items}`, `{<resource>}`, a `Link` header.
 *
 * Invariant: only this file knows the envelopes. A body in another form is null, never an empty list. A page whose
 * next page cannot be requested is an error, never the last page.
 */
import { isObject, type JsonObject } from '../../core/json.ts'
import { ShapeError } from '../errors.ts'
import { queryOfLink } from '../paths.ts'

export interface ListBody {
  readonly records: readonly unknown[]
  /** The service's count of the whole list; null if it gives none. */
  readonly count: number | null
  /** Query of the next page, without a question mark; null if the page names none. */
  readonly next: string | null
  /** True when the page can tell that it is the last: it has a `next` field or a `Link` header at all. */
  readonly endKnown: boolean
}

/** Null if the body is not a list. `path` is for the `ShapeError` of a next page that cannot be requested. */
export function readList(
  body: unknown,
  headers: { readonly [name: string]: string },
  resource: string,
  path: string,
): ListBody | null {
  const linked = linkHeader(headers.link)
  if (Array.isArray(body)) {
    return { records: body, count: null, next: linked ?? null, endKnown: linked !== undefined }
  }
  if (!isObject(body)) return null
  const records = recordsIn(body, resource)
  if (records === null) return null
  const inBody = nextIn(body, path)
  const next = inBody ?? linked ?? null
  if (next === null && announcesMore(body)) throw unreadable(path)
  return {
    records,
    count: countIn(body),
    next,
    endKnown: inBody !== undefined || linked !== undefined,
  }
}

function recordsIn(body: JsonObject, resource: string): readonly unknown[] | null {
  const keys = ['results', 'data', 'items', resource]
  for (const key of keys) {
    const value = body[key]
    if (Array.isArray(value)) return value.length === 0 && reportsError(body) ? null : value
  }
  if ([...keys, ...COMPLAINTS].some((key) => key in body)) return null
  const lists = Object.values(body).filter((value) => Array.isArray(value))
  const only = lists.length === 1 ? lists[0]! : []
  return only.length > 0 && only.every(isObject) ? only : null
}

const COMPLAINTS = ['detail', 'error', 'errors']

/** True if the body reports an error. */
function reportsError(body: JsonObject): boolean {
  return COMPLAINTS.some((key) => {
    const value = body[key]
    return Array.isArray(value) ? value.length > 0 : Boolean(value)
  })
}

function countIn(body: JsonObject): number | null {
  for (const value of [body.count, body.total]) {
    const count = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
    if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count
  }
  return null
}

/** Undefined if the body has no `next` field, null if the field says that there is no next page. */
function nextIn(body: JsonObject, path: string): string | null | undefined {
  const places = [body, body.links, body._links, body.meta].filter(
    (place) => isObject(place) && place.next !== undefined,
  ) as JsonObject[]
  if (places.length === 0) return undefined
  const links = places.map((place) => linkIn(place.next, path))
  return links.find((link) => link !== null) ?? null
}

/** The query of a link in a body: text, a page number, or an object with a link. */
function linkIn(next: unknown, path: string): string | null {
  if (next === null || next === '') return null
  if (typeof next === 'string') return queryOfLink(next)
  if (typeof next === 'number' && Number.isSafeInteger(next) && next >= 0) return `page=${next}`
  const inner = isObject(next) ? (next.href ?? next.url) : undefined
  if (typeof inner === 'string' && inner !== '') return queryOfLink(inner)
  throw unreadable(path)
}

/** True if the body says that more pages follow: by a flag, or by a token whose parameter is not specified. */
function announcesMore(body: JsonObject): boolean {
  return [body, body.meta].some((place) => {
    if (!isObject(place)) return false
    const tokens = [place.next_cursor, place.next_page_token]
    return place.has_more === true || tokens.some((token) => (token ?? '') !== '')
  })
}

function unreadable(path: string): ShapeError {
  return new ShapeError(
    path,
    'the link to the next page cannot be read',
    'list_unreadable',
    'Set a `pageSize` that holds the whole list in the configuration, or ask the service’s operators for `next` links.',
  )
}

/** As `nextIn`, of a `Link` header: `<https://…?page=2>; rel="next", …`. */
function linkHeader(header: string | undefined): string | null | undefined {
  if (header === undefined) return undefined
  const links = [...header.matchAll(/<([^>]*)>((?:\s*;[^;,"=]+(?:=(?:"[^"]*"|[^;,"]*))?)*)/g)]
  const paging = links.filter(([, , parameters]) =>
    /\brel="?[^";]*\b(?:next|prev|previous|first|last)\b/i.test(parameters!),
  )
  if (paging.length === 0) return undefined
  const next = paging.find(([, , parameters]) => /\brel="?[^";]*\bnext\b/i.test(parameters!))
  return next ? queryOfLink(next[1]!) : null
}
