/** How long an answer of 429 or 503 asks us to wait, in any form, and with any clock of the service. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { retryAfterOf } from '../../../src/api/http/backoff.ts'

const NOW = Date.UTC(2026, 10, 20, 12)
const NOTHING = Buffer.from('')
const HOUR = 3_600_000
const header = (text: string | undefined, serviceDate: number | null = null) =>
  retryAfterOf(text, NOTHING, serviceDate, NOW)
const sentence = (text: string, said?: string) => retryAfterOf(said, Buffer.from(text), null, NOW)
const date = (at: number) => new Date(at).toUTCString()

describe('a date', () => {
  test.each([
    ['an hour behind ours', -HOUR],
    ['as ours', 0],
    ['a day ahead of ours', 24 * HOUR],
  ])('is on the service’s clock, which is %s', (_name, apart) => {
    expect(header(date(NOW + apart + 30_000), NOW + apart)).toBe(30_000)
    expect(header(date(NOW + apart - 30_000), NOW + apart)).toBe(0)
  })

  test('is on our clock if the service shows no time of its own', () => {
    expect(header(date(NOW + 30_000))).toBe(30_000)
    expect(header(date(NOW - 1_000))).toBe(0)
  })

  test("is a duration from the service's time, however far the clocks are apart", () => {
    const seconds = fc.integer({ min: 0, max: 100_000 })
    const apart = fc.integer({ min: -1_000_000, max: 1_000_000 })
    fc.assert(
      fc.property(seconds, apart, (wait, offset) => {
        const there = NOW + offset * 1000
        expect(header(date(there + wait * 1000), there)).toBe(wait * 1000)
      }),
    )
  })
})

test.each([
  ['0', 0],
  ['7', 7_000],
  ['1.25', 1_250],
  [' 7 ', 7_000],
  ['1.5', 1_500],
  ['999999999', 999_999_999_000],
])('seconds are seconds, whatever the clocks show: "%s"', (text, milliseconds) => {
  for (const serviceDate of [null, NOW - HOUR, NOW + HOUR])
    expect(header(text, serviceDate)).toBe(milliseconds)
})

test.each(['', '-1', '1e3', '0x10', 'soon', '1234567890', '2026-11-20T12:00:00Z', '7 s'])(
  'anything else gives no time: "%s"',
  (text) => {
    expect(header(text, NOW)).toBeNull()
    expect(sentence('Expected available in 3 seconds.', text)).toBe(3_000)
  },
)

describe('the sentence', () => {
  test('is read if there is no header, and otherwise ignored', () => {
    expect(sentence('{"detail": "Request was throttled. Expected available in 42 seconds."}')).toBe(42_000)
    expect(sentence('Expected available in 1 second.')).toBe(1_000)
    expect(sentence('Expected available in 42 seconds.', '7')).toBe(7_000)
    expect(sentence('Request was throttled.')).toBeNull()
    expect(header(undefined)).toBeNull()
  })

  test('is read only at the beginning of a body', () => {
    const said = 'available in 3 seconds'
    expect(sentence(' '.repeat(2048 - said.length) + said)).toBe(3_000)
    expect(sentence(' '.repeat(2048) + said)).toBeNull()
  })
})
