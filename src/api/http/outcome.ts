/**
 * What an answer amounts to: what was read, or a failure with its verdict.
 *
 * Invariant: a redirect is a failure, never followed; a body that is not whole JSON is one too.
 */
import { parseJson } from '../../core/json.ts'
import { type Failure, failureOfBody, failureOfRedirect, failureOfStatus } from './failures.ts'
import type { WireAnswer } from './wire.ts'

export type Read = { readonly body: unknown; readonly invalidUtf8: boolean }

/** Judges the answer to a request of `path`; `one` says that the request names one resource by id. */
export function outcomeOf(
  came: WireAnswer,
  path: string,
  one: boolean,
  as: 'json' | 'bytes' = 'json',
): Read | Failure {
  const { status, body } = came
  if (status >= 300 && status < 400) {
    return failureOfRedirect(status, onlySlashDiffers(path, came.headers.location))
  }
  if (status < 200 || status >= 400) return failureOfStatus(status, one)
  if (as === 'bytes') return { body, invalidUtf8: false }
  if (body.length === 0) return { body: null, invalidUtf8: false }
  try {
    const { value, invalidUtf8 } = parseJson(body)
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
  const at = header === undefined ? Number.NaN : Date.parse(header)
  return Number.isFinite(at) ? at : null
}
