/**
 * One value of a payload → one cell of a table, as text for COPY.
 *
 * Invariant (law 4): a value that cannot be read as the column's type gives null and a problem with the original value;
 * nothing is nulled silently. An empty string stays empty in a text column and is null, without a
 * problem, in any other. In a text column a number or boolean is its JSON text, and so is an object or array, its keys
 * sorted: equal contents have one hash, so their cells must not differ.
 */
import { canonicalText } from '../../core/canonical.ts'
import type { Problem } from '../../core/envelope.ts'
import { referenceId } from '../../core/identifiers.ts'
import { isObject } from '../../core/json.ts'
import { parseDate, parseInstant } from '../../core/time.ts'

export type Cell = string | null

export type CellType =
  | 'text'
  | 'boolean'
  | 'time'
  | 'date'
  | 'integer'
  | 'bigint'
  | 'number'
  | 'reference'
  | 'texts'

type Reading = Cell | typeof UNREADABLE

const UNREADABLE = Symbol('unreadable')

const EXPECTED: Readonly<Record<CellType, string>> = {
  text: 'text',
  boolean: 'true or false',
  time: 'an ISO 8601 time',
  date: 'an ISO date',
  integer: 'a whole number of four bytes',
  bigint: 'a whole number of eight bytes',
  number: 'a number',
  reference: 'an id',
  texts: 'a list of texts',
}

const READERS: Readonly<Record<CellType, (value: unknown) => Reading>> = {
  text: (value) => (typeof value === 'string' ? value : canonicalText(value)),
  boolean: readBoolean,
  time: (value) => (typeof value === 'string' ? (parseInstant(value) ?? UNREADABLE) : UNREADABLE),
  date: (value) => (typeof value === 'string' ? (parseDate(value) ?? UNREADABLE) : UNREADABLE),
  integer: (value) => readWhole(value, -(2n ** 31n), 2n ** 31n - 1n),
  bigint: (value) => readWhole(value, -(2n ** 63n), 2n ** 63n - 1n),
  number: readNumber,
  reference: readReference,
  texts: readTexts,
}

/** Reads `value` as a cell of type `type`; adds to `problems` when it cannot. */
export function readCell(type: CellType, value: unknown, path: string, problems: Problem[]): Cell {
  if (value === null || value === undefined) return null
  if (value === '') return type === 'text' ? '' : null
  const reading = READERS[type](value)
  if (reading !== UNREADABLE) return reading
  problems.push({ path, reason: `not ${EXPECTED[type]}`, original: value })
  return null
}

function readBoolean(value: unknown): Reading {
  if (value === true || value === 'true') return 't'
  return value === false || value === 'false' ? 'f' : UNREADABLE
}

function readWhole(value: unknown, least: bigint, greatest: bigint): Reading {
  const text = typeof value === 'string' ? value : canonicalText(value)
  if (!/^-?\d{1,19}(?:\.0+)?$/.test(text)) return UNREADABLE
  const whole = BigInt(text.replace(/\..*/, ''))
  return whole < least || whole > greatest ? UNREADABLE : whole.toString()
}

function readNumber(value: unknown): Reading {
  const text = typeof value === 'string' ? value : canonicalText(value)
  return /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?$/.test(text) ? text : UNREADABLE
}

function readReference(value: unknown): Reading {
  const reading = referenceId(value)
  if (reading.kind === 'id') return reading.id
  if (reading.kind !== 'none') return UNREADABLE
  // A null id is no reference; an object with other fields instead of an id is unreadable.
  const hasOtherFields =
    isObject(value) && Object.keys(value).length > 0 && !('id' in value) && !('uid' in value)
  return hasOtherFields ? UNREADABLE : null
}

/**
 * A list as Postgres writes an array of text; a bare text is a list of one, and nulls are no items. Only for columns of
 * a root table: the lines of children are written as if no cell had a backslash that the payload's text has not.
 */
function readTexts(value: unknown): Reading {
  if (typeof value !== 'string' && !Array.isArray(value)) return UNREADABLE
  const items: readonly unknown[] = Array.isArray(value) ? value : [value]
  const quoted = items
    .filter((item) => item !== null)
    .map((item) => `"${(typeof item === 'string' ? item : canonicalText(item)).replace(/["\\]/g, '\\$&')}"`)
  return `{${quoted.join()}}`
}
