/** Definitions of instruments: what is accepted, and what the built-in ones say. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseInstrument } from '../../src/analytics/instruments.ts'

const minimal = {
  ...{ instrument: 'x', title: 'X', source: 'Our own', least_answered: 1, points: { Yes: 1 } },
  items: [{ wordings: ['One?'] }],
  bands: [] as object[],
}
const parsed = (more: object) => parseInstrument(JSON.stringify({ ...minimal, ...more }))
const items = (count: number) => Array.from({ length: count }, () => ({ wordings: ['One?'] }))
const long = 'x'.repeat(500)

describe('a definition', () => {
  it.each([
    { instrument: `a${'-'.repeat(39)}` },
    { title: long, source: long },
    { points: { Yes: 1000, No: -1000 } },
    { items: items(200), least_answered: 200, zero_item: 200 },
    { points: undefined, items: [{ points: { Yes: 1 } }] },
    { items: [{ codes: [long], wordings: [long] }] },
    { bands: [{ from: -1.5, sex: 'male', band: long }] },
  ])('may be %j', (more) => {
    expect(() => parsed(more)).not.toThrow()
  })

  it.each([
    [{ instrument: `a${'-'.repeat(40)}` }, 'instrument: is not a short name'],
    ...['', 'A', '1a', 'a_b', 'a b'].map(
      (instrument) => [{ instrument }, 'instrument: is not a short name'] as const,
    ),
    [{ title: `${long}x` }, 'title: '],
    [{ title: ' ' }, 'title: '],
    [{ source: '' }, 'source: '],
    [{ points: { Yes: 1000.5 } }, 'points.Yes: '],
    [{ points: { Yes: -1000.5 } }, 'points.Yes: '],
    [{ points: { [`${long}x`]: 1 } }, 'points.'],
    [{ items: items(201) }, 'items: '],
    [{ items: [] }, 'items: '],
    [{ least_answered: 0 }, 'least_answered: '],
    [{ least_answered: 1.5 }, 'least_answered: '],
    [{ least_answered: 2 }, 'least_answered: is more than there are items'],
    [{ zero_item: 0 }, 'zero_item: '],
    [{ zero_item: 2 }, 'zero_item: is not the place of an item'],
    [{ points: undefined, items: [{ points: { Yes: 1 } }, {}] }, 'items.1.points: is missing here'],
    [{ items: [{ wording: 'One?' }] }, 'items.0: '],
    [{ items: [{ codes: [''] }] }, 'items.0.codes.0: '],
    [{ items: [{ wordings: [`${long}x`] }] }, 'items.0.wordings.0: '],
    [{ bands: [{ from: 1, sex: 'other', band: 'b' }] }, 'bands.0.sex: '],
    [{ bands: [{ from: 1, band: '' }] }, 'bands.0.band: '],
    [{ bands: [{ from: 1, band: 'b', to: 2 }] }, 'bands.0: '],
  ] as const)('may not be %j', (more, message) => {
    expect(() => parsed(more)).toThrow(`the definition is wrong at ${message}`)
  })

  it('has no codes, wordings and sex unless it says so, and no blanks around texts', () => {
    expect(parsed({ title: ' X ', items: [{}], bands: [{ from: 0, band: ' b ' }] })).toEqual({
      ...minimal,
      items: [{ codes: [], wordings: [] }],
      bands: [{ from: 0, sex: 'any', band: 'b' }],
    })
  })
})

it('of the program, items, codes, points and bands are those that were compared with the publications', () => {
  const folder = new URL('../../sql/instruments/', import.meta.url)
  const hashes = readdirSync(folder).map((name) => {
    const { instrument, items: own, ...more } = parseInstrument(readFileSync(new URL(name, folder), 'utf8'))
    const hash = createHash('sha256')
      .update(JSON.stringify([own, more]))
      .digest('hex')
    return [instrument, own.map(({ codes }) => codes.join()).join(' '), hash.slice(0, 8)]
  })
  expect(hashes.sort()).toEqual([
    ['audit-c', '68518-0 68519-8 68520-6', '640537e3'],
    ['gad-7', '69725-0 68509-9 69733-4 69734-2 69735-9 69689-8 69736-7', '97d5422b'],
    ['phq-2', '44250-9 44255-8', '05b57bc1'],
    ['phq-9', '44250-9 44255-8 44259-0 44254-1 44251-7 44258-2 44252-5 44253-3 44260-8', 'a05cb3f5'],
  ])
})
