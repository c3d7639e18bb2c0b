/**
 * A text read as a number, a boolean and a date, whatever the type of its question.
 *
 * Invariant: the whole text, including blanks, must match; a text that does not match gives null without a problem,
 * because the text itself is stored in the same row. A number is digits with an optional sign, fraction and exponent
 * (`-2`, `+.5`, `1e3`), without separators, and fits Postgres' `numeric`.
 */
import { isWithinNumeric } from '../../core/canonical.ts'
import { parseDate } from '../../core/time.ts'
import type { Cell } from './cell.ts'

const NUMBER = /^[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?$/

const BOOLEAN = /^(?:true|false|yes|no)$/i

/** Start of a number, a boolean or a date; most texts do not match. */
const MAY_BE = /^[-+.\dtfyn]/i

const NONE: readonly [Cell, Cell, Cell] = [null, null, null]

/** The cells of `value_number`, `value_boolean` and `value_date`. */
export function typedCells(text: Cell): readonly [number: Cell, boolean: Cell, date: Cell] {
  if (text === null || text === '') return NONE
  if (!MAY_BE.test(text)) return NONE
  const boolean = booleanOf(text)
  return boolean === null ? [numberOf(text), null, dateOf(text)] : [null, boolean, null]
}

/** The text of the number that `text` is. */
export function numberOf(text: string): Cell {
  return NUMBER.test(text) && isWithinNumeric(text) ? text : null
}

/** `t` for true and yes, `f` for false and no, in any case. */
export function booleanOf(text: string): Cell {
  if (text.length > 5 || !BOOLEAN.test(text)) return null
  const first = text[0]!
  return first === 't' || first === 'T' || first === 'y' || first === 'Y' ? 't' : 'f'
}

/** The ISO date, `YYYY-MM-DD`, that `text` is. */
export function dateOf(text: string): Cell {
  return text.length === 10 ? parseDate(text) : null
}
