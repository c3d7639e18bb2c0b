/**
 * Options and answers of a call, for every endpoint.
 *
 * Invariant: times of our own clock are microseconds; times of the service's clock are milliseconds and come only
 * from its `Date` header.
 */
import { parseJson } from '../../core/json.ts'
import { parseEntries } from '../../core/raw-entries.ts'
import type { Query } from '../paths.ts'
import { type Failure, failureOfBody, failureOfRedirect, failureOfStatus } from './failures.ts'
import type { WireAnswer } from './wire.ts'

/** Request counts; one per stream, and one for the client as a whole. */
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
  /** Sent as JSON; a Uint8Array is sent unchanged, with `contentType`. */
  readonly body?: unknown
  readonly contentType?: string
  /** True for a POST that changes nothing and may be retried like a GET (the CSV export). */
  readonly read?: boolean
  /** True if the body names one resource by id, as a path with `{id}` does: a refusal dead-letters that resource. */
  readonly one?: boolean
  /** `bytes` returns the body as received (a Uint8Array), `entries` lists with entries that are not parsed (`RawEntry`). */
  readonly as?: 'json' | 'entries' | 'bytes'
  /** Replaces the path in logs and errors, where the path may identify a person. */
  readonly label?: string
  /** Called with the last unsuccessful answer, its body as bytes, before the call throws. */
  readonly onRefusal?: (answer: Answer) => void
}

export interface StreamOptions extends Omit<RequestOptions, 'as'> {
  /** Largest body in bytes, uncompressed; a larger one fails. 16 GiB by default. */
  readonly maxBytes?: number
}

export interface Answer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: { readonly [name: string]: string }
  /** The parsed JSON, null for an empty body; a Uint8Array with `as: 'bytes'`. */
  readonly body: unknown
  readonly invalidUtf8: boolean
  /** Start of the successful attempt, in microseconds of our own clock. */
  readonly startedAt: number
  readonly receivedAt: number
  /** The `Date` header in milliseconds since 1970 of the service's clock, or null. */
  readonly serviceDate: number | null
  /** Size of the uncompressed body. */
  readonly bytes: number
}

/**
 * What an answer amounts to: what was read, or a failure with its verdict.
 *
 * Invariant: a redirect is a failure, never followed; a body that is not whole JSON is one too.
 */
export type ReadBody = { readonly body: unknown; readonly invalidUtf8: boolean }

/** Judges the answer to a request of `path`; `one` says that the request names one resource by id. */
export function outcomeOf(
  received: WireAnswer,
  path: string,
  one: boolean,
  as: 'json' | 'entries' | 'bytes' = 'json',
): ReadBody | Failure {
  const { status, body } = received
  if (status >= 300 && status < 400) {
    return failureOfRedirect(status, onlySlashDiffers(path, received.headers.location))
  }
  if (status < 200 || status >= 400) return failureOfStatus(status, one)
  if (as === 'bytes') return { body, invalidUtf8: false }
  if (body.length === 0) return { body: null, invalidUtf8: false }
  try {
    const { value, invalidUtf8 } = as === 'entries' ? parseEntries(body) : parseJson(body)
    return { body: value, invalidUtf8 }
  } catch (error) {
    const deep = error instanceof RangeError || (error as Error).message.includes('too deeply')
    return failureOfBody(deep ? 'too_deep' : 'not_json')
  }
}

function onlySlashDiffers(path: string, location: string | undefined): boolean {
  if (location === undefined || !URL.canParse(location, 'http://any.invalid')) return false
  const to = new URL(location, 'http://any.invalid').pathname
  return to !== path && to.replace(/\/$/, '') === path.replace(/\/$/, '')
}

/** A `Date` header in milliseconds since 1970, or null. */
export function dateOf(header: string | undefined): number | null {
  const time = header === undefined ? Number.NaN : Date.parse(header)
  return Number.isFinite(time) ? time : null
}
