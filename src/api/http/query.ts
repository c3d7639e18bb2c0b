/** Query strings of requests. */

export type QueryValue = string | number | boolean | null | undefined
/** Null and undefined omit a parameter. A string is a query received from the service, sent back unchanged. */
export type Query = { readonly [name: string]: QueryValue } | string

/** `?a=1&b=2`, or empty. */
export function queryText(query: Query | undefined): string {
  if (query === undefined) return ''
  if (typeof query === 'string') return query === '' ? '' : `?${query}`
  const pairs = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) pairs.append(name, String(value))
  }
  return pairs.size === 0 ? '' : `?${pairs}`
}
