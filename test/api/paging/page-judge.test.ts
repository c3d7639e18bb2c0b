/** Pages that are requested while others are in flight. */
import { expect, test } from 'vitest'
import type { PageFacts } from '../../../src/api/paging/page.ts'
import { PageJudge } from '../../../src/api/paging/page-judge.ts'

const page = (number: number, facts: Partial<PageFacts> = {}): PageFacts => ({
  ...{ kind: 'page', number, records: 3, count: 300, next: `page=${number + 1}`, endKnown: true },
  ...{ fingerprint: `page ${number}`, fits: true, ...facts },
})

/** A list of a hundred pages: the first has arrived and the next four are in flight. */
function begun(): PageJudge {
  const judge = new PageJudge('/list', undefined, undefined)
  expect(judge.next()).toEqual({ number: 1, query: '' })
  judge.arrived(page(1))
  for (const number of [2, 3, 4, 5]) expect(judge.next()).toEqual({ number, query: `page=${number}` })
  return judge
}

test.each([
  ['missing', { kind: 'missing', number: 4 }],
  ['empty', page(4, { records: 0, fingerprint: null })],
  ['failed', { kind: 'failed', number: 4, error: new Error('no') }],
  ['misfit', page(4, { fits: false })],
] as const)('no page is requested after one that ends the scan: %s', (_, arrival) => {
  const judge = begun()
  judge.arrived(arrival)
  expect(judge.next()).toBeNull()
  expect(judge.isOver || judge.failure !== null).toBe(false)
  judge.arrived(page(3))
  judge.arrived(page(2))
  expect(judge.isOver || judge.failure?.number === 4).toBe(true)
  expect(judge.next()).toBeNull()
  expect(judge.outcome()).toMatchObject({
    complete: false,
    stable: false,
    records: arrival.kind === 'page' && !arrival.fits ? 12 : 9,
  })
})

test('pages after the next ones are requested while an earlier one is in flight', () => {
  const judge = begun()
  judge.arrived(page(5))
  expect(judge.next()).toEqual({ number: 6, query: 'page=6' })
  judge.arrived(page(2))
  judge.arrived(page(4))
  expect(judge.next()).toEqual({ number: 7, query: 'page=7' })
})

test('a repeated page delays requests until the list is known to have changed', () => {
  const judge = begun()
  judge.arrived(page(3))
  judge.arrived(page(5, { fingerprint: 'page 3' }))
  expect(judge.next()).toBeNull()
  judge.arrived(page(4, { count: 303 }))
  expect(judge.next()).toBeNull()
  judge.arrived(page(2))
  expect(judge.failure).toBeNull()
  expect(judge.next()).toEqual({ number: 6, query: 'page=6' })
  expect(judge.outcome().reason).toBe('page_repeated_while_changing')
})

test('empty pages with full ones between them do not end a scan, however many they are', () => {
  const judge = new PageJudge('/list', undefined, undefined)
  const last = 61
  for (let number = 1; number <= last; number += 1) {
    expect(judge.next()?.number).toBe(number)
    const gap = number % 2 === 0 ? { records: 0, fingerprint: null } : {}
    judge.arrived(page(number, { ...gap, count: null, next: number < last ? `cursor=${number + 1}` : null }))
  }
  expect(judge.next()).toBeNull()
  expect(judge.outcome()).toMatchObject({ complete: true, stable: true, records: 3 * 31 })
})

/** The outcome of a list whose pages arrive one after another, and how many of them were requested. */
function ending(pages: readonly Partial<PageFacts>[], size?: number) {
  const judge = new PageJudge('/list', undefined, size)
  let requested = 0
  for (const facts of pages) {
    if (judge.next() === null) break
    requested += 1
    judge.arrived(page(requested, facts))
  }
  expect(judge.failure).toBeNull()
  return { requested, isOver: judge.isOver && judge.next() === null, ...judge.outcome() }
}
const WHOLE = { isOver: true, complete: true, stable: true }
const EMPTY = { records: 0, fingerprint: null }

test.each<[string, Partial<PageFacts>[], number | undefined, object]>([
  [
    'a full page that says that it is the last is the last',
    [{ next: null, count: null }, {}],
    3,
    { ...WHOLE, requested: 1, records: 3 },
  ],
  [
    'a page that is not full is the last',
    [{ next: null, count: null, endKnown: false, records: 2 }, {}],
    3,
    { ...WHOLE, requested: 1, records: 2 },
  ],
  [
    'after a full page the next one is tried, until one is empty',
    [
      { next: null, count: null, endKnown: false },
      { next: null, count: null, endKnown: false, ...EMPTY },
    ],
    3,
    { ...WHOLE, requested: 2, pages: 1, records: 3 },
  ],
  [
    'none is tried once there are as many records as the list has',
    [{ next: null, count: 3, endKnown: false }, {}],
    3,
    { ...WHOLE, requested: 1, records: 3 },
  ],
  [
    'an empty page in a list that is followed link by link is no page',
    [
      { next: 'cursor=2', count: null },
      { next: 'cursor=3', count: null, ...EMPTY },
      { next: null, count: null },
    ],
    undefined,
    { ...WHOLE, requested: 3, pages: 2, records: 6 },
  ],
  [
    'an empty first page is one',
    [{ next: null, count: 0, ...EMPTY }],
    undefined,
    { ...WHOLE, requested: 1, pages: 1, records: 0 },
  ],
  [
    'a list with a count whose last page by link is empty has lost records',
    [
      { next: 'cursor=2', count: 6 },
      { next: null, count: 6, ...EMPTY },
    ],
    undefined,
    { isOver: true, complete: false, reason: 'rows_vanished', records: 3 },
  ],
  [
    'one without a count has not',
    [
      { next: 'cursor=2', count: null },
      { next: null, count: null, ...EMPTY },
    ],
    undefined,
    { ...WHOLE, records: 3 },
  ],
  [
    'one whose page may be followed by others has not',
    [
      { next: 'cursor=2', count: 3 },
      { next: null, count: 3, endKnown: false, ...EMPTY },
    ],
    undefined,
    { ...WHOLE, records: 3 },
  ],
  [
    'an empty last page by number has lost records, also if it may be followed by others',
    [{ count: 6 }, { next: null, count: 6, endKnown: false, ...EMPTY }],
    undefined,
    { isOver: true, complete: false, reason: 'rows_vanished', records: 3 },
  ],
  [
    'a page by number with more records than the first is a sign that the list changed, also if all add up',
    [{ count: 9 }, { count: 9, records: 4 }, { count: 9, records: 2, next: null }],
    undefined,
    { isOver: true, complete: true, stable: false, reason: 'short_page', records: 9 },
  ],
  [
    'a page by number that says that it is the last, and is not, has lost those that follow',
    [{ count: 9 }, { count: 9, next: null }, { count: 9, next: null }],
    undefined,
    { isOver: true, complete: false, reason: 'rows_vanished', records: 9 },
  ],
  [
    'an empty page after the last by number has not',
    [{ count: 6 }, { count: 6 }, { next: null, count: 6, endKnown: false, ...EMPTY }],
    undefined,
    { ...WHOLE, requested: 3, records: 6 },
  ],
])('%s', (_, pages, size, expected) => {
  expect(ending(pages, size)).toMatchObject(expected)
})

test('a page that names no count does not contradict the first one', () => {
  const judge = new PageJudge('/list', undefined, undefined)
  judge.next()
  judge.arrived(page(1, { count: 4, next: 'cursor=2' }))
  expect(judge.next()).toEqual({ number: 2, query: 'cursor=2' })
  judge.arrived(page(2, { records: 1, count: null, next: null }))
  expect(judge.outcome()).toEqual({ complete: true, stable: true, count: 4, pages: 2, records: 4 })
})

test('of several signs of a change the most severe is the reason: a drifted count outranks a short page', () => {
  const pairs: readonly (readonly [Partial<PageFacts>, Partial<PageFacts>])[] = [
    [{ records: 2 }, {}],
    [{ count: 301 }, {}],
    [{ records: 2 }, { count: 301 }],
    [{ count: 301 }, { records: 2 }],
  ]
  const reasons = pairs.map(([second, third]) => {
    const judge = begun()
    judge.arrived(page(2, second))
    judge.arrived(page(3, third))
    return judge.outcome().reason
  })
  expect(reasons).toEqual(['short_page', ...Array.from({ length: 3 }, () => 'count_drifted')])
})

test('a count that appears only on a later page has drifted, and a link to the first page repeats that page', () => {
  const judge = new PageJudge('/list', 'form=7', undefined)
  judge.next()
  judge.arrived(page(1, { count: null, next: 'cursor=b' }))
  expect(judge.next()).toEqual({ number: 2, query: 'cursor=b&form=7' })
  judge.arrived(page(2, { count: 6, next: 'form=7' }))
  expect(judge.failure).toMatchObject({ number: 2, error: { code: 'page_repeated' } })
  expect([judge.outcome().reason, judge.next()]).toEqual(['count_drifted', null])
})
