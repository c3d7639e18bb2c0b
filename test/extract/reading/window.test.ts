import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Instant, instantOf, microsOf, parseInstant } from '../../../src/core/time.ts'
import { EVERYTHING, isInWindow, planWindow, reachesBack } from '../../../src/extract/reading/window.ts'

const at = (text: string) => parseInstant(text)!
const NOW = at('2026-03-20T02:00:00Z')
const NIGHTLY = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
const CURSOR = { newest: '2026-03-19T22:15:00.123456Z', swept_at: '2026-03-18T02:00:00.000001Z' }

describe('the window of a run', () => {
  it('begins two days before the checkpoint, and two more for different bounds and time zones', () => {
    expect(planWindow(CURSOR, NIGHTLY, NOW)).toMatchObject({ after: '2026-03-15', note: null })
    expect(planWindow(CURSOR, { ...NIGHTLY, lookbackDays: 0 }, NOW).after).toBe('2026-03-17')
  })

  it.each<[string, unknown]>([
    ['before the first run', null],
    ['after a run that saw no date', { ...CURSOR, newest: null }],
    ['after one that was not stable', { newest: CURSOR.newest, swept_at: null }],
    ['when the last reading of everything was a week ago', { ...CURSOR, swept_at: '2026-03-13T02:00:00Z' }],
  ])('is everything %s', (_title, cursor) => {
    expect(planWindow(cursor, NIGHTLY, NOW)).toMatchObject({ after: null, note: null })
  })

  it('is everything with --full, and the submissions since a date with --since, whatever the checkpoint', () => {
    expect(planWindow(CURSOR, { ...NIGHTLY, full: true }, NOW).after).toBeNull()
    expect(planWindow(CURSOR, { ...NIGHTLY, since: at('2026-01-10') }, NOW).after).toBe('2026-01-08')
    expect(planWindow(null, { ...NIGHTLY, since: at('2026-01-10') }, NOW).after).toBe('2026-01-08')
  })

  it.each<[string, unknown]>([
    ['is in the future', { ...CURSOR, newest: '2027-01-01T00:00:00Z' }],
    ['is in the future', { ...CURSOR, swept_at: '2026-03-25T00:00:00Z' }],
    ['cannot be read', { ...CURSOR, newest: 'yesterday' }],
    ['cannot be read', { ...CURSOR, newest: 17 }],
    ['cannot be read', { ...CURSOR, swept_at: '2026-02-30T00:00:00Z' }],
    ['cannot be read', 'x'],
    ['cannot be read', []],
  ])('is everything, with a note, when the checkpoint %s', (what, cursor) => {
    expect(planWindow(cursor, NIGHTLY, NOW)).toEqual({
      after: null,
      checkpoint: { newest: null, swept_at: null },
      note: `the stored checkpoint ${what}`,
    })
    // The note is also given when --since decides the window, and nothing is stored.
    const checkpoint = { newest: null, swept_at: null }
    const note = `the stored checkpoint ${what}`
    const since = at('2026-01-10')
    expect(planWindow(cursor, { ...NIGHTLY, since }, NOW)).toEqual({ after: '2026-01-08', checkpoint, note })
    expect(planWindow(cursor, { ...NIGHTLY, full: true }, NOW)).toEqual({ after: null, checkpoint, note })
  })

  it('leaves no gap between two runs, to the microsecond, in any time zone of the service', () => {
    const moment = fc.integer({ min: microsOf(at('2020-01-01')), max: microsOf(NOW) })
    const zone = fc.integer({ min: -14 * 60, max: 14 * 60 })
    fc.assert(
      fc.property(moment, moment, zone, fc.boolean(), (checkpoint, submitted, minutes, exclusive) => {
        fc.pre(submitted >= checkpoint)
        const cursor = { newest: instantOf(checkpoint), swept_at: instantOf(microsOf(NOW) - 1_000_000) }
        const { after } = planWindow(cursor, { ...NIGHTLY, lookbackDays: 0 }, NOW)
        const day = instantOf(submitted + minutes * 60_000_000).slice(0, 10)
        expect(exclusive ? day > after! : day >= after!).toBe(true)
        expect(isInWindow(instantOf(submitted), after!)).toBe(true)
      }),
    )
  })
})

describe('everything is read again', () => {
  const swept = (micros: number) =>
    planWindow({ ...CURSOR, swept_at: instantOf(microsOf(NOW) - micros) }, NIGHTLY, NOW).after

  it('at the end of the given days, to the microsecond', () => {
    expect(swept(7 * 86_400_000_000 - 1)).toBe('2026-03-15')
    expect(swept(7 * 86_400_000_000)).toBeNull()
  })

  it('whatever was read before, if everything is requested', () => {
    expect(planWindow(CURSOR, EVERYTHING, NOW)).toMatchObject({ after: null, note: null })
  })
})

it('a partial settle keeps the content of the checkpoint', () => {
  expect(planWindow(CURSOR, NIGHTLY, NOW).checkpoint).toEqual({
    newest: '2026-03-19T22:15:00.123456Z',
    swept_at: '2026-03-18T02:00:00.000001Z',
  })
})

it('a window does not begin before the first day of the calendar', () => {
  expect(planWindow(null, { ...NIGHTLY, since: at('0001-01-01') }, NOW).after).toBe('0001-01-02')
})

describe('a checkpoint may advance', () => {
  it.each([
    ['2026-03-17', true],
    ['2026-03-16', true],
    ['2026-03-18', false],
  ])('when the window began two days before it or earlier: %s %s', (after, moves) => {
    expect(reachesBack(after, at('2026-03-19T00:00:00Z'))).toBe(moves)
    expect(reachesBack(after, at('2026-03-19T23:59:59.999999Z'))).toBe(moves)
  })

  it('after every window that a run plans itself', () => {
    const moment = fc.integer({ min: microsOf(at('2020-01-01')), max: microsOf(NOW) })
    fc.assert(
      fc.property(moment, fc.nat(5), (checkpoint, lookbackDays) => {
        const cursor = { newest: instantOf(checkpoint), swept_at: instantOf(microsOf(NOW) - 1_000_000) }
        const { after } = planWindow(cursor, { ...NIGHTLY, lookbackDays }, NOW)
        expect(reachesBack(after!, instantOf(checkpoint))).toBe(true)
      }),
    )
  })
})

describe('a record satisfies the filter', () => {
  it.each([
    ['2026-03-15T00:00:00Z', true],
    ['2026-03-14T10:00:00Z', true],
    ['2026-03-13T23:59:59.999999Z', false],
    [null, false],
    ['soon', false],
    [7, false],
  ])('dated %s: %s', (date, expected) => {
    expect(isInWindow(date as Instant | null, '2026-03-15')).toBe(expected)
  })
})
