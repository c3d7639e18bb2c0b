/**
 * What a list answer holds, whichever envelope it came in (specification: not shown): `{count, next, results}`, a
 * bare array, `{data}`, `{items}`, `{<resource>}`, a `Link` header.
 *
 * Invariant: this is the only place that knows the envelopes; a body that is none of them is null, never an empty
 * list.
 */
import { isObject } from '../core/json.ts'
import { queryOfLink } from './query.ts'

export interface ListBody {
  readonly records: readonly unknown[]
  /** How many records the service says the whole list has; null when it does not. */
  readonly count: number | null
  /** Query of the next page, without a question mark; null when this is the last, as far as this page says. */
  readonly next: string | null
  /** True when the page can tell that it is the last: it has a `next` field or a `Link` header at all. */
  readonly tells: boolean
}

export function readList(
  body: unknown,
  headers: { readonly [name: string]: string },
  resource: string,
): ListBody | null {
  const linked = linkHeader(headers.link)
  if (Array.isArray(body)) {
    return { records: body, count: null, next: linked ?? null, tells: linked !== undefined }
  }
  if (!isObject(body)) return null
  const records = recordsIn(body, resource)
  if (records === null) return null
  const told = nextIn(body)
  return {
    records,
    count: countIn(body),
    next: told ?? linked ?? null,
    tells: told !== undefined || linked !== undefined,
  }
}

function recordsIn(body: { readonly [key: string]: unknown }, resource: string): readonly unknown[] | null {
  for (const key of ['results', 'data', 'items', resource]) {
    const value = body[key]
    if (Array.isArray(value)) return value
  }
  const lists = Object.values(body).filter((value) => Array.isArray(value))
  return lists.length === 1 ? lists[0]! : null
}

function countIn(body: { readonly [key: string]: unknown }): number | null {
  const { count } = body
  return typeof count === 'number' && Number.isSafeInteger(count) && count >= 0 ? count : null
}

/** Undefined when the body does not say, null when it says that there is none. */
function nextIn(body: { readonly [key: string]: unknown }): string | null | undefined {
  const links = body.links
  const next = 'next' in body ? body.next : isObject(links) && 'next' in links ? links.next : undefined
  if (next === undefined) return undefined
  if (typeof next === 'number') return `page=${next}`
  return typeof next === 'string' && next !== '' ? queryOfLink(next) : null
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
