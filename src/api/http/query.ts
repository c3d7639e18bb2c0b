/**
 * Query strings: of our own filters, and of the `next` links that the service gives.
 *
 * Invariant: of a link only its query is ever used (law 7); scheme, host, port and path are cut off unread.
 */

export type QueryValue = string | number | boolean | null | undefined
/** Null and undefined leave a parameter out. A string is a query that came from the service, sent back as it was. */
export type Query = { readonly [name: string]: QueryValue } | string

/** `?a=1&b=2`, or nothing. */
export function queryText(query: Query | undefined): string {
  if (query === undefined) return ''
  if (typeof query === 'string') return query === '' ? '' : `?${query}`
  const pairs = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) pairs.append(name, String(value))
  }
  return pairs.size === 0 ? '' : `?${pairs}`
}

/** The query of a link, without its question mark; empty when it has none. */
export function queryOfLink(link: string): string {
  const start = link.indexOf('?')
  if (start < 0) return ''
  const query = link.slice(start + 1).split('#', 1)[0]!
  // What cannot stand in a request line is encoded; what can is kept to the letter, a cursor may depend on it.
  return query.replace(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text.toWellFormed()))
}

/** `query` with those of our own filters that the link forgot, so that following it cannot widen the list. */
export function withOwn(query: string, own: Query | undefined): string {
  const missing = new URLSearchParams()
  const present = new URLSearchParams(query)
  for (const [name, value] of new URLSearchParams(queryText(own))) {
    if (!present.has(name)) missing.append(name, value)
  }
  if (missing.size === 0) return query
  return query === '' ? missing.toString() : `${query}&${missing}`
}

/** `query` with one parameter set to another number, everything else to the letter. */
export function withNumber(query: string, name: string, value: number): string {
  return query
    .split('&')
    .map((pair) => (decoded(pair.split('=', 1)[0]!) === name ? `${name}=${value}` : pair))
    .join('&')
}

/** A parameter that is a whole number from 0 up, given once; else null. */
export function numberIn(query: string, name: string): number | null {
  const values = new URLSearchParams(query).getAll(name)
  return values.length === 1 && /^\d{1,15}$/.test(values[0]!) ? Number(values[0]) : null
}

function decoded(name: string): string {
  return new URLSearchParams(`${name}=`).keys().next().value ?? ''
}
