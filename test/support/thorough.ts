/**
 * How much is tried of what costs a transaction each: a part on every run, all of it with TEST_THOROUGH=1.
 *
 * Invariant: what is tried differs in number only; no promise is tested by the thorough run alone.
 */
const THOROUGH = process.env.TEST_THOROUGH === '1'

export function often<Value>(usual: Value, thorough: Value): Value {
  return THOROUGH ? thorough : usual
}
