/**
 * Ids are text and are read in one place (law 7): `id` or `uid`, a string or a whole number.
 *
 * Invariant: an id returned here is exactly the service's own; a number that JSON cannot carry exactly is refused.
 */
import { isLosslessNumber, isObject } from './json.ts'

export type IdReading =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'inexact' }
  | { readonly kind: 'unusable' }

/** In bytes; longer ids could not be part of an index key. */
const MAX_BYTES = 1000

/** What nearly every id is written with; nothing more has to be checked. */
const USUAL = /^[\w-]{1,200}$/

/** Reads a value that stands for an id. Blank text and null are no id. */
export function readId(value: unknown): IdReading {
  if (typeof value === 'string') {
    if (USUAL.test(value)) return { kind: 'id', id: value }
    if (value.trim() === '') return { kind: 'none' }
    return Buffer.byteLength(value) > MAX_BYTES || value.includes('\0') || !value.isWellFormed()
      ? { kind: 'unusable' }
      : { kind: 'id', id: value }
  }
  if (typeof value === 'number') {
    return Number.isSafeInteger(value) ? { kind: 'id', id: String(value) } : { kind: 'inexact' }
  }
  if (isLosslessNumber(value)) return { kind: 'inexact' }
  return value === null || value === undefined ? { kind: 'none' } : { kind: 'unusable' }
}

/** The id of a record: its `id`, else its `uid`. */
export function recordId(record: { readonly [key: string]: unknown }): IdReading {
  const byId = readId(record.id)
  return byId.kind === 'none' ? readId(record.uid) : byId
}

/** The id that a reference names: an id itself, or an object with `id` or `uid`. */
export function referenceId(value: unknown): IdReading {
  return isObject(value) ? recordId(value) : readId(value)
}
