/**
 * How many cases to try where each costs a transaction: a part on every run, all with TEST_THOROUGH=1.
 *
 * Invariant: only the number of cases differs; every promise is also tested by the ordinary run.
 */
const THOROUGH = process.env.TEST_THOROUGH === '1'

export function often<Value>(usual: Value, thorough: Value): Value {
  return THOROUGH ? thorough : usual
}
