/** The service's explanation of a refusal (`detail`). It may quote health data, so it goes to stdout only. */
import type { Answer } from '../api/client.ts'
import { isObject, parseJson } from '../core/json.ts'
import { shown } from './terminal/printable.ts'

/** One line, or null if the body is not JSON or has no explanation. */
export function detailOf(refusal: Answer): string | null {
  try {
    const { value } = parseJson(refusal.body as Uint8Array)
    return shown(isObject(value) ? (value.detail ?? value) : value) || null
  } catch {
    return null
  }
}
