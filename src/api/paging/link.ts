/**
 * The service's `next` links, and the parameters in them.
 *
 * Invariant: only the query of a link is used (law 7); scheme, host, port and path are discarded.
 */
import { type Query, queryText } from '../paths.ts'

/** The query of a link, without the question mark; empty if there is none. */
export function queryOfLink(link: string): string {
  const start = link.indexOf('?')
  if (start < 0) return ''
  const query = link.slice(start + 1).split('#', 1)[0]!
  // Encodes only characters that a request line cannot contain, since a cursor may depend on every other one.
  return query.replace(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text.toWellFormed()))
}

/** `query` plus our own filters that it lacks, so that following a link cannot widen the list. */
export function withFilters(query: string, filters: Query | undefined): string {
  const missing = new URLSearchParams()
  const present = new URLSearchParams(query)
  for (const [name, value] of new URLSearchParams(queryText(filters))) {
    if (!present.has(name)) missing.append(name, value)
  }
  if (missing.size === 0) return query
  return query === '' ? missing.toString() : `${query}&${missing}`
}

/** `query` with one parameter set to another number, otherwise unchanged. */
export function withNumber(query: string, name: string, value: number): string {
  return query
    .split('&')
    .map((pair) => (decoded(pair.split('=', 1)[0]!) === name ? `${name}=${value}` : pair))
    .join('&')
}

/** The value of a parameter that occurs once and is a whole number of 0 or more; else null. */
export function numberIn(query: string, name: string): number | null {
  const values = new URLSearchParams(query).getAll(name)
  return values.length === 1 && /^\d{1,15}$/.test(values[0]!) ? Number(values[0]) : null
}

function decoded(name: string): string {
  return new URLSearchParams(`${name}=`).keys().next().value ?? ''
}
