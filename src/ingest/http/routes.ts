/**
 * The paths of events: `/webhooks` and `/webhooks/{team}`, with or without a slash at the end, percent-encoded or not, and
 * whatever the query.
 */

export interface Route {
  /** Undefined where the path names no team. A team that is named need not exist. */
  readonly team: string | undefined
}

/** A request target may be a whole URL (RFC 9112, section 3.2.2). */
const ORIGIN = /^https?:\/\/[^/?#]*/i

/** Returns the route of a request target; null for any other path, and for one that cannot be decoded. */
export function openRoutes(teams: readonly string[]): (target: string) => Route | null {
  // The usual spellings are not parsed again for each event.
  const usual = new Map<string, Route>([['/webhooks', { team: undefined }]])
  for (const team of teams) usual.set(`/webhooks/${team}`, { team })
  return (target) => usual.get(target) ?? parse(target)
}

function parse(target: string): Route | null {
  const path = target.replace(ORIGIN, '').replace(/[?#].*$/s, '')
  const [start, first, team, ...more] = path
    .replace(/(?<=.)\/$/, '')
    .split('/')
    .map(decoded)
  if (start !== '' || first !== 'webhooks' || team === '' || team === null || more.length > 0) return null
  return { team }
}

function decoded(segment: string): string | null {
  try {
    return decodeURIComponent(segment)
  } catch {
    return null
  }
}
