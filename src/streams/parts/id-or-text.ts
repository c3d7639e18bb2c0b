/**
 * A bare value where the service may write an id, an index or a text: a row of a matrix, a choice.
 *
 * Invariant: the value is in one of the two cells, exactly as received. A number, or a text that looks like a UUID, is an
 * id of the service; any other text is a label, also one of digits: the columns of a scale are labeled 1, 2, 3.
 */
import { canonicalText } from '../../core/canonical.ts'
import type { Problem } from '../../core/envelope.ts'
import { isLosslessNumber } from '../../core/json.ts'
import { type Cell, readCell } from './cell.ts'

const UUID = /^[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i

export function idOrText(value: unknown, path: string, problems: Problem[]): [id: Cell, text: Cell] {
  if (typeof value === 'string') return UUID.test(value) ? [value, null] : [null, value]
  if (typeof value === 'number' || isLosslessNumber(value)) return [canonicalText(value), null]
  if (typeof value === 'boolean') return [null, String(value)]
  return [readCell('reference', value, path, problems), null]
}
