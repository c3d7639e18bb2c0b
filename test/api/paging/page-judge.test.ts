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
