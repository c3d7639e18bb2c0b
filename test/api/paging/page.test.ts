/** The remaining pages of a list, from its first page and the link to the next one: all of them, or none. */
import { expect, test } from 'vitest'
import { numberedRest } from '../../../src/api/paging/page.ts'

const rest = (next: string, size: number, count: number | null, filters?: Record<string, string>) => {
  const found = numberedRest(next, { size, count }, filters)
  return found && [found.pages, found.size, found.queryOf(2), found.queryOf(found.pages)]
}

test.each([
  ['page=2', 3, 9, [3, 3, 'page=2', 'page=3']],
  ['page=2', 3, 10, [4, 3, 'page=2', 'page=4']],
  ['page=2', 3, 4, [2, 3, 'page=2', 'page=2']],
  ['per=3&page=2&sort=id', 3, 9, [3, 3, 'per=3&page=2&sort=id', 'per=3&page=3&sort=id']],
  // Whatever a page with a limit calls its size.
  ['limit=5&page=2', 3, 9, [3, 3, 'limit=5&page=2', 'limit=5&page=3']],
  ['offset=3', 3, 10, [4, 3, 'offset=3', 'offset=9']],
  ['limit=3&offset=3', 3, 9, [3, 3, 'limit=3&offset=3', 'limit=3&offset=6']],
] as const)('are known from %s after %i of %i records', (next, size, count, expected) => {
  expect(rest(next, size, count)).toEqual(expected)
})

test('have the filters of the list that the link leaves out', () => {
  expect(rest('page=2', 3, 9, { patient: 'p' })).toEqual([3, 3, 'page=2&patient=p', 'page=3&patient=p'])
  expect(rest('offset=3&patient=p', 3, 9, { patient: 'p' })![3]).toBe('offset=6&patient=p')
})

test.each([
  ['without a count', 'page=2', 3, null],
  ['without a count of an empty page', 'page=2', 0, null],
  ['after an empty page', 'page=2', 0, 9],
  ['of a list of one page', 'page=2', 3, 3],
  ['of a list without records', 'page=2', 3, 0],
  ['with a cursor', 'page=2&cursor=x', 3, 9],
  ['with another page', 'page=3', 3, 9],
  ['with a page that is no number', 'page=two', 3, 9],
  ['with a page and an offset', 'page=2&offset=3', 3, 9],
  ['with an offset that is not the size of the page', 'offset=4', 3, 9],
  ['with a limit that is not the size of the page', 'limit=5&offset=3', 3, 9],
  ['with another page and an offset', 'page=7&offset=3', 3, 9],
  ['with another page and both', 'page=7&limit=3&offset=3', 3, 9],
  ['with a limit alone', 'limit=3', 3, 9],
  ['without any place', 'after=x', 3, 9],
])('are not computed from a link %s', (_, next, size, count) => {
  expect(rest(next, size, count)).toBeNull()
})
