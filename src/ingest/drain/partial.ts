/**
 * Whether an event holds a whole record. One that may not is asked for by its id; and it is not loaded where a value
 * that is held would be nulled silently (law 4).
 *
 * Invariant: a field that is held with a value, or that every known record of the stream has, is missed when an event
 * leaves it out; one that is held empty is not, since nothing is lost with it.
 */
import type { JsonObject } from '../../core/json.ts'
import type { Stream } from '../../streams/stream.ts'

/** Thin whatever is held: an id alone, or what a list would tell of the record. */
export function isThin(stream: Stream, payload: JsonObject, apiVersion: string): boolean {
  if (stream.isSummary?.(payload, apiVersion) === true) return true
  for (const field in payload) if (field !== 'id' && field !== 'uid') return false
  return true
}

/** Of what is held, `rest` is what the event's record leaves out: true when a value is among it. */
export function missesValues(rest: JsonObject): boolean {
  return Object.values(rest).some((value) => !isEmpty(value))
}

/** True when a record leaves out a field that all of the stream's records have. */
export function missesUsual(payload: JsonObject, usual: readonly string[]): boolean {
  return usual.some((field) => !(field in payload))
}

/** Where nothing is held of a stream yet: true when a record has less than half of the fields that it may have. */
export function missesMost(stream: Stream, payload: JsonObject): boolean {
  const told = stream.columns.filter((column) => column.from.some((field) => field in payload))
  return told.length * 2 < stream.columns.length
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}
