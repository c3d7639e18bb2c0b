/** The order of a record's states is total, and the same here and in the SQL of the merge. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Envelope,
  FUTURE_TOLERANCE_SECONDS,
  stampsDisagree,
  supersedes,
  versionOf,
  withVersionAbove,
} from '../../src/core/envelope.ts'
import { type Instant, instantOf, microsOf } from '../../src/core/time.ts'
import { at } from '../support/envelopes.ts'
import { envelope } from './states.ts'

const same = (a: Envelope, b: Envelope) =>
  a.version === b.version && a.observedAt === b.observedAt && a.content?.hash === b.content?.hash

test('exactly one of two different states wins, and a state does not supersede itself', () => {
  fc.assert(
    fc.property(envelope, envelope, (a, b) =>
      same(a, b) ? !supersedes(a, b) && !supersedes(b, a) : supersedes(a, b) !== supersedes(b, a),
    ),
    { numRuns: 3000 },
  )
})

test('superseding is transitive', () => {
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

  test.each<[string, unknown, Instant, Instant | null, boolean]>([
    ['without a time of update, when it was seen', undefined, seen, null, false],
    ['updated before, when it was seen', ahead(-1), seen, ahead(-1), false],
    ['updated at that moment, when it was seen', seen, seen, seen, false],
    ['updated a microsecond later, its update', ahead(1), ahead(1), ahead(1), false],
    [
      'updated just within the tolerance, its update',
      ahead(tolerance),
      ahead(tolerance),
      ahead(tolerance),
      false,
    ],
    ['updated just beyond it, when it was seen', ahead(tolerance + 1), seen, null, true],
    ['updated in the year 9999, when it was seen', '9999-12-31T23:59:59Z', seen, null, true],
    ['updated in another zone, its update', '2026-01-01T14:00:00.000001+02:00', ahead(1), ahead(1), false],
    ['updated before, in another zone', '2026-01-01T13:59:59.999999+02:00', seen, ahead(-1), false],
    ['with an update that is no time, when it was seen', 'soon', seen, null, false],
    ['with an update that is a number, when it was seen', 4_102_444_800, seen, null, false],
    ['with an update that is null, when it was seen', null, seen, null, false],
  ])('%s', (_, stamp, version, updatedAt, tooFarAhead) => {
    expect(versionOf(stamp, seen)).toEqual({ version, updatedAt, tooFarAhead })
  })

  test('counts a stamp up to five minutes after the end of the reading, not after its beginning', () => {
    const readBy = ahead(3_600_000_000)
    const [counts, exceeds] = [0, 1].map((micros) => instantOf(microsOf(readBy) + tolerance + micros))
    expect(versionOf(counts, seen, readBy)).toEqual({
      ...{ version: counts, updatedAt: counts, tooFarAhead: false },
    })
    expect(versionOf(exceeds, seen, readBy)).toEqual({ version: seen, updatedAt: null, tooFarAhead: true })
  })
})

describe('stamps that disagree with versions', () => {
  const state = (updatedAt: Instant | null): Envelope => ({
    ...{ teamId: 1, stream: 'patients', id: 'a', version: at(9), observedAt: at(9), origin: 'test' },
    updatedAt,
    content: null,
  })
  const record = (updatedAt: Instant | null): Envelope => ({
    ...state(updatedAt),
    content: { payload: {}, text: '{}', asReceived: null, hash: 'h', problems: [] },
  })

  test('a record that was updated and deleted at one moment is gone since', () => {
    expect(stampsDisagree(record(at(2)), state(at(2)))).toBe(true)
    expect(stampsDisagree(state(at(2)), record(at(2)))).toBe(false)
    expect(stampsDisagree(record(at(2)), record(at(2)))).toBe(false)
    expect(stampsDisagree(record(at(3)), state(at(2)))).toBe(false)
    expect(stampsDisagree(record(null), state(at(2)))).toBe(false)
  })

  test.each<[string, Instant | null, Instant | null, boolean]>([
    ['the loser was updated later', at(1), at(2), true],
    ['the loser was updated at the same moment', at(2), at(2), false],
    ['the winner was updated later', at(2), at(1), false],
    ['the winner has no stamp', null, at(2), false],
    ['the loser has no stamp', at(1), null, false],
  ])('%s', (_, winner, loser, disagree) => {
    expect(stampsDisagree(state(winner), state(loser))).toBe(disagree)
  })
})

describe("if the records' own stamps decide", () => {
  const record = (updatedAt: Instant | null, seen: number, hash: string): Envelope => ({
    ...{
      teamId: 1,
      stream: 'packet_responses',
      id: 'a',
      version: at(seen),
      observedAt: at(seen),
      origin: 'test',
    },
    updatedAt,
    content: { payload: {}, text: '{}', asReceived: null, hash, problems: [] },
  })
  const gone = (seen: number): Envelope => ({ ...record(at(seen), seen, ''), content: null })
  test.each<[string, Envelope, Envelope]>([
    [
      'the record updated later stays, though it was seen earlier',
      record(at(2), 5, 'a'),
      record(at(1), 9, 'b'),
    ],
    ['of two updated at one time, the one seen later', record(at(2), 9, 'a'), record(at(2), 5, 'b')],
    ['of two updated and seen at one time, the greater hash', record(at(2), 5, 'b'), record(at(2), 5, 'a')],
    ['without a stamp, the later version', record(null, 9, 'a'), record(at(2), 5, 'b')],
    ['with a stamp, the later version if the other has none', record(at(2), 9, 'a'), record(null, 5, 'b')],
    ['a deletion stays over a record that was seen before', gone(9), record(at(2), 5, 'a')],
    ['a record that was seen after a deletion undoes it', record(at(2), 10, 'a'), gone(9)],
  ])('%s', (_, winner, loser) => {
    expect(supersedes(winner, loser, true)).toBe(true)
    expect(supersedes(loser, winner, true)).toBe(false)
  })
})

describe('of two states', () => {
  const state = (over: Partial<Envelope>): Envelope => ({
    ...{
      teamId: 1,
      stream: 'patients',
      id: 'a',
      version: at(5),
      observedAt: at(5),
      updatedAt: null,
      origin: 'test',
    },
    content: { payload: {}, text: '{}', asReceived: null, hash: '80', problems: [] },
    ...over,
  })
  const gone = (over: Partial<Envelope>) => state({ ...over, content: null })
  const hashed = (hash: string) => state({ content: { ...state({}).content!, hash } })

  // Each wins over the next in one part, and loses to it in all later parts.
  test.each<[string, Envelope, Envelope]>([
    ['the later version', state({ version: at(6), observedAt: at(1) }), gone({ observedAt: at(9) })],
    ['at one version the deletion', gone({ observedAt: at(1) }), state({ observedAt: at(9) })],
    ['of two alike the one read later', { ...hashed('00'), observedAt: at(6) }, hashed('ff')],
    ['at one time the greater hash', hashed('81'), hashed('80')],
  ])('%s wins, whatever the other parts and their own stamps are', (_, winner, loser) => {
    for (const [a, b] of [
      [winner, loser],
      [
        { ...winner, updatedAt: at(1) },
        { ...loser, updatedAt: at(2) },
      ],
    ] as const) {
      expect(supersedes(a, b)).toBe(true)
      expect(supersedes(b, a)).toBe(false)
    }
  })

  test('a state does not win over itself', () => {
    for (const each of [state({}), gone({}), state({ updatedAt: at(1) })]) {
      expect(supersedes(each, { ...each })).toBe(false)
      expect(supersedes(each, { ...each }, true)).toBe(false)
    }
  })

  test('stamps decide only where configured, and only between records that both have one', () => {
    const early = state({ version: at(9), observedAt: at(9), updatedAt: at(1) })
    const late = state({ version: at(2), observedAt: at(2), updatedAt: at(2) })
    expect([supersedes(late, early, true), supersedes(early, late, true)]).toEqual([true, false])
    expect([supersedes(late, early), supersedes(early, late)]).toEqual([false, true])
    const unstamped = state({ version: at(3), observedAt: at(1) })
    expect([supersedes(unstamped, late, true), supersedes(late, unstamped, true)]).toEqual([true, false])
    const deleted = gone({ version: at(3), observedAt: at(1), updatedAt: at(0) })
    expect([supersedes(deleted, late, true), supersedes(late, deleted, true)]).toEqual([true, false])
    // With equal stamps, the one that was read later wins.
    expect(supersedes({ ...late, observedAt: at(3) }, { ...late, version: at(9) }, true)).toBe(true)
  })

  test.each([
    [at(1), at(2), true],
    [at(2), at(2), false],
    [at(2), at(1), false],
    [null, at(2), false],
    [at(1), null, false],
    [null, null, false],
  ])('stamps %s and %s disagree with the order: %s', (winner, loser, disagree) => {
    expect(stampsDisagree(state({ updatedAt: winner }), state({ updatedAt: loser }))).toBe(disagree)
  })

  test('a decision is stored a microsecond above the stored state, or at its own version', () => {
    const decided = state({})
    expect(withVersionAbove(decided, undefined)).toBe(decided)
    expect(withVersionAbove(decided, { version: at(7) })).toEqual({ ...decided, version: at(8) })
    expect(withVersionAbove(decided, { version: at(5) })).toEqual({ ...decided, version: at(6) })
    expect(withVersionAbove(decided, { version: at(4) })).toEqual(decided)
    expect(withVersionAbove(decided, { version: at(1) })).toEqual(decided)
  })
})
