/** Which state of a record stays is a total order, the same here and in the SQL that merges. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Envelope, FUTURE_TOLERANCE_SECONDS, supersedes, versionOf } from '../../src/core/envelope.ts'
import { type Instant, instantOf, microsOf } from '../../src/core/time.ts'
import { at } from '../support/envelopes.ts'
import { envelope } from './states.ts'

const same = (a: Envelope, b: Envelope) =>
  a.version === b.version && a.observedAt === b.observedAt && a.content?.hash === b.content?.hash

test('of two different states exactly one stays, and of one and the same neither supersedes', () => {
  fc.assert(
    fc.property(envelope, envelope, (a, b) =>
      same(a, b) ? !supersedes(a, b) && !supersedes(b, a) : supersedes(a, b) !== supersedes(b, a),
    ),
    { numRuns: 3000 },
  )
})

test('what supersedes the one that supersedes, supersedes', () => {
  fc.assert(
    fc.property(
      envelope,
      envelope,
      envelope,
      (a, b, c) => !(supersedes(a, b) && supersedes(b, c)) || supersedes(a, c),
    ),
    { numRuns: 3000 },
  )
})

describe('the version of a state', () => {
  const seen = at(0)
  const ahead = (micros: number) => instantOf(microsOf(seen) + micros)
  const tolerance = FUTURE_TOLERANCE_SECONDS * 1_000_000

  test.each<[string, unknown, Instant, boolean]>([
    ['without a time of update, when it was seen', undefined, seen, false],
    ['updated before, when it was seen', ahead(-1), seen, false],
    ['updated at that moment, when it was seen', seen, seen, false],
    ['updated a microsecond later, its update', ahead(1), ahead(1), false],
    ['updated just within the tolerance, its update', ahead(tolerance), ahead(tolerance), false],
    ['updated just beyond it, when it was seen', ahead(tolerance + 1), seen, true],
    ['updated in the year 9999, when it was seen', '9999-12-31T23:59:59Z', seen, true],
    ['updated in another zone, its update', '2026-01-01T14:00:00.000001+02:00', ahead(1), false],
    ['with an update that is no time, when it was seen', 'soon', seen, false],
    ['with an update that is a number, when it was seen', 4_102_444_800, seen, false],
    ['with an update that is null, when it was seen', null, seen, false],
  ])('%s', (_, updatedAt, version, tooFarAhead) => {
    expect(versionOf(updatedAt, seen)).toEqual({ version, tooFarAhead })
  })
})
