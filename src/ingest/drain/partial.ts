/**
 * Decides whether an event contains a whole record. A record that may be partial is fetched by id; it is not loaded where
 * that would silently replace a stored value by null (law 4).
 *
 * Invariant: a field counts as missing when the event leaves it out and it is stored with a value, or every known record
 * of the stream has it. A field that is stored empty does not count: nothing is lost.
 */
import type { JsonObject } from '../../core/json.ts'
import type { Stream } from '../../streams/stream.ts'

/** True for a record that is partial whatever is stored: an id alone, or a list's summary. */
export function isPartial(stream: Stream, payload: JsonObject, apiVersion: string): boolean {
  if (stream.isSummary?.(payload, apiVersion) === true) return true
  for (const field in payload) if (field !== 'id' && field !== 'uid') return false
  return true
}

/** `rest`: the stored fields that the event leaves out. True when one of them has a value. */
export function missesValues(rest: JsonObject): boolean {
  return Object.values(rest).some((value) => !isEmpty(value))
}

/** True when a record leaves out a field that all of the stream's records have. */
export function missesUsual(payload: JsonObject, usual: readonly string[]): boolean {
  return usual.some((field) => !(field in payload))
}

/** For a stream without stored records: true when a record has less than half of its possible fields. */
export function missesMost(stream: Stream, payload: JsonObject): boolean {
  const present = stream.columns.filter((column) => column.from.some((field) => field in payload))
  return present.length * 2 < stream.columns.length
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}
