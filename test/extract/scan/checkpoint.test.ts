/** A stored checkpoint is trusted only if it has the current form and none of its times is in the future. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantOf, microsOf, parseInstant } from '../../../src/core/time.ts'
import { NO_CHECKPOINT, readCheckpoint } from '../../../src/extract/reading/window.ts'

const NOW = parseInstant('2026-03-20T02:00:00Z')!
const DAY = 86_400_000_000
const ahead = (micros: number) => instantOf(microsOf(NOW) + micros)

test.each([null, undefined])('%s is read as no checkpoint', (stored) => {
  expect(readCheckpoint(stored, NOW)).toEqual({ kind: 'good', checkpoint: NO_CHECKPOINT })
  expect(NO_CHECKPOINT).toEqual({ newest: null, swept_at: null })
})

test('its times are read to the microsecond, in UTC, and unknown fields are dropped', () => {
  const stored = {
    newest: '2026-03-19T10:00:00.000001+02:00',
    swept_at: '2026-03-18',
    scanned_at: NOW,
    steady: true,
  }
  expect(readCheckpoint(stored, NOW)).toEqual({
    kind: 'good',
    checkpoint: { newest: '2026-03-19T08:00:00.000001Z', swept_at: '2026-03-18T00:00:00.000000Z' },
  })
})

test.each([
  [{}, null, null],
  [{ newest: null, swept_at: null, scanned_at: null }, null, null],
  [{ newest: '2026-03-19' }, '2026-03-19T00:00:00.000000Z', null],
  [{ swept_at: '2026-03-19' }, null, '2026-03-19T00:00:00.000000Z'],
])('%j is read as its valid fields', (stored, newest, swept_at) => {
  expect(readCheckpoint(stored, NOW)).toEqual({ kind: 'good', checkpoint: { newest, swept_at } })
})

describe.each(['newest', 'swept_at', 'scanned_at'])('%s', (name) => {
  test('may be a day ahead, for different clocks, and not a microsecond more', () => {
    expect(readCheckpoint({ [name]: ahead(DAY) }, NOW).kind).toBe('good')
    expect(readCheckpoint({ [name]: ahead(DAY + 1) }, NOW)).toEqual({
      kind: 'invalid',
      reason: 'the stored checkpoint is in the future',
    })
  })

  test.each(['yesterday', '', 7, true, [], {}, '2026-02-30'])('that is %j cannot be read', (value) => {
    const invalid = { kind: 'invalid', reason: 'the stored checkpoint cannot be read' }
    expect(readCheckpoint({ [name]: value }, NOW)).toEqual(invalid)
  })
})

test.each(['x', 7, true, []])('one that is %j cannot be read', (stored) => {
  expect(readCheckpoint(stored, NOW)).toEqual({
    kind: 'invalid',
    reason: 'the stored checkpoint cannot be read',
  })
})

test('the checkpoint that one run settles is valid for the next one', () => {
  const moment = fc.integer({ min: 0, max: microsOf(NOW) })
  fc.assert(
    fc.property(moment, moment, moment, (newest, swept, now) => {
      fc.pre(newest <= now && swept <= now)
      const stored = { newest: instantOf(newest), swept_at: instantOf(swept) }
      expect(readCheckpoint(JSON.parse(JSON.stringify(stored)), instantOf(now))).toEqual({
        kind: 'good',
        checkpoint: stored,
      })
    }),
  )
})
