/** Figures, times and charts of the console. */
import { describe, expect, it } from 'vitest'
import { bars, count, days, duration, minute, plural } from '../../src/console/format.ts'

it('counts have groups of thousands, and none is not zero', () => {
  expect([0, 999, 1_234_567, null].map(count)).toEqual(['0', '999', '1,234,567', '–'])
  expect([plural(1, 'team'), plural(0, 'team'), plural(2, 'query', 'queries')]).toEqual([
    ...['1 team', '0 teams', '2 queries'],
  ])
})

it('times are to the minute in UTC', () => {
  const times = ['2026-11-22T22:14:59.999+02:00', new Date('2026-11-22T22:14:00Z'), null]
  expect(times.map(minute)).toEqual(['2026-11-22 20:14 UTC', '2026-11-22 22:14 UTC', '–'])
})

it('durations have one unit that fits', () => {
  const seconds = [null, 0.04, 3.24, 9.96, 10, 119, 120, 7_199, 7_200, 172_799, 172_800, 1_000_000]
  expect(seconds.map(duration)).toEqual([
    ...['–', '0 s', '3.2 s', '10 s', '10 s', '119 s', '2 min', '120 min', '2 h', '48 h', '2 d', '12 d'],
  ])
})

describe('a chart', () => {
  const heights = (svg: string) =>
    [...svg.matchAll(/ height="(\d+)"><title>/g)].map(([, height]) => Number(height))
  const places = (svg: string) =>
    [...svg.matchAll(/<rect class="(\w+)" x="(\d+)" y="(\d+)"/g)].map((each) => each.slice(1))
  const bar = (value: number, kind: 'good' | 'bad' = 'good') => ({ value, kind, title: `"<${value}>&` })

  it('shows the greatest value at full height, a small one visibly, and zero as a line', () => {
    const svg = bars([bar(0), bar(1), bar(500, 'bad'), bar(1_000)], 'a "label"')
    expect(heights(svg)).toEqual([1, 3, 14, 28])
    expect(places(svg)).toEqual([
      ['good', '0', '27'],
      ['good', '6', '25'],
      ['bad', '12', '14'],
      ['good', '18', '0'],
    ])
    expect(svg).toContain('aria-label="a &quot;label&quot;" width="24" height="28" viewBox="0 0 24 28"')
    expect(svg).toContain('<title>&quot;&lt;500>&amp;</title>')
    expect(svg.match(/ width="5" height="\d+"><title>/g)).toHaveLength(4)
    expect(svg.match(/<\/rect><rect|<\/rect><\/svg>/g)).toHaveLength(4)
    expect(heights(bars([bar(0)], ''))).toEqual([1])
    expect(bars([], '')).toContain('width="6"')
  })

  it('of days has one shape, and says the sum and the most of a day', () => {
    const svg = days([0, 2, 4], 'events')
    expect(svg).toContain('aria-label="events per day for 3 days: 6 in all, at most 4 a day"')
    expect(svg).toContain('<path d="M0 28v-1h5v1zM6 28v-14h5v14zM12 28v-28h5v28z"/>')
    expect(days([0], 'rows')).toContain('rows per day for 1 days: 0 in all, at most 0 a day')
  })
})
