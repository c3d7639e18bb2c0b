/**
 * What goes into a call and what comes back, for every endpoint alike.
 *
 * Invariant: times of our own clock are microseconds; times of the service's clock are milliseconds and come only
 * from its `Date` header.
 */
import type { Query } from './query.ts'

/** Counted by the client while it works; one a stream, and one for the client as a whole. */
export interface Meter {
  requests: number
  throttled: number
}

export interface RequestOptions {
  /** Values of the path's `{name}` parts. */
  readonly params?: { readonly [name: string]: string }
  readonly query?: Query
  readonly meter?: Meter
  readonly signal?: AbortSignal
  /** Sent as JSON, unless it is bytes, which go as they are with `contentType`. */
  readonly body?: unknown
  readonly contentType?: string
  /** True for a POST that changes nothing and may be repeated like a GET (the CSV export). */
  readonly read?: boolean
  /** True when the body names one resource by id, as a path with `{id}` does: a refusal sets that one aside. */
  readonly one?: boolean
  /** `bytes` leaves the body as it came (a Uint8Array). */
  readonly as?: 'json' | 'bytes'
  /** What logs and errors call the path, where the path itself may name a person; else the path as it is given. */
  readonly label?: string
  /** Is shown the last answer that was no success, its body as bytes, right before the error, which holds none of it. */
  readonly onRefusal?: (answer: Answer) => void
}

export interface StreamOptions extends Omit<RequestOptions, 'as'> {
  /** Largest body, in bytes, unpacked; more fails. 16 GiB when left out. */
  readonly maxBytes?: number
}

export interface Answer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: { readonly [name: string]: string }
  /** The parsed JSON, null for an empty body; a Uint8Array where bytes were asked for. */
  readonly body: unknown
  readonly invalidUtf8: boolean
  /** When the attempt that succeeded was started, in microseconds of our own clock. */
  readonly startedAt: number
  readonly receivedAt: number
  /** The `Date` header in milliseconds since 1970 of the service's clock, or null. */
  readonly serviceDate: number | null
  /** Size of the body, unpacked. */
  readonly bytes: number
}
