/**
 * The callbacks by which the ingester and the drain report counts and times; metrics and tests implement them.
 *
 * Invariant: a callback never gets a value of an event, and nothing waits for it.
 */

/** Why a request was not stored. */
export type Rejection =
  /** 400: no signature, or one that is not of this body. */
  | 'signature'
  /** 404. */
  | 'unknown_team'
  /** 413. */
  | 'too_large'
  /** 400 or 408: a request that is not HTTP, or was not finished in time. */
  | 'malformed'
  /** 408: a body slower than the least rate. */
  | 'slow'
  /** 503: beyond the limits of requests and bytes in flight. */
  | 'overload'
  /** Closed without an answer: a connection beyond the limits, on which nothing was signed. */
  | 'crowded'
  /** 503: the warehouse could not store it. */
  | 'unavailable'
  /** 503: no signature secret is known yet. */
  | 'no_secret'

export interface IngestWatch {
  /** An event that was signed and is committed; `duplicate` when the inbox already contained it. */
  stored(team: string, duplicate: boolean): void
  /** `team` is left out where the path names no known team. */
  rejected(reason: Rejection, team?: string): void
  /** One group commit: how many events, how long the statement took. */
  committed(events: number, seconds: number): void
}

export interface DrainWatch {
  /** Events that left the inbox; `visibleSeconds` holds, for each, the time from its arrival to its row's commit. */
  drained(
    team: string,
    events: { done: number; dead: number; retried: number },
    visibleSeconds: readonly number[],
  ): void
  /** An error of our own code, for which events of a batch are tried one by one. */
  defect(kind: string): void
  /** Records fetched again by id: how many requests, of them answered 404. */
  refetched(team: string, requests: number, gone: number): void
}
