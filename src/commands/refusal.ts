/** The service's own words about a refusal (`detail`), for the person who asked; for no log and no error. */
import type { Answer } from '../api/client.ts'
import { isObject, parseJson } from '../core/json.ts'
import { shown } from './terminal/printable.ts'

/** One line, or null when the answer says nothing in the form that it should. */
export function detailOf(refusal: Answer): string | null {
  try {
    const { value } = parseJson(refusal.body as Uint8Array)
    const said = isObject(value) ? (value.detail ?? value) : value
    return shown(said) || null
  } catch {
    return null
  }
}
