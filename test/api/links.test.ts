/** Links: only their query is used, and our own filters stay. */
import { describe, expect, test } from 'vitest'
import { numberIn, queryOfLink, withFilters, withNumber } from '../../src/api/paths.ts'

test.each([
  ['https://elsewhere.example.com/other?a=1&b=2', 'a=1&b=2'],
  ['?a=1', 'a=1'],
  ['/v2/patients', ''],
  ['/v2/patients?', ''],
  ['/x?a=1#b=2?c', 'a=1'],
  ['/x?a=1?b', 'a=1?b'],
  ['/x?cursor=a+b%2F=,~', 'cursor=a+b%2F=,~'],
  ['/x?name=Zoë Ann', 'name=Zo%C3%AB%20Ann'],
  ['/x?a=\ud83d', 'a=%EF%BF%BD'],
])('only the query of the link %s is used', (link, query) => {
  expect(queryOfLink(link)).toBe(query)
})

describe('a link cannot widen a list', () => {
  test.each<[string, Parameters<typeof withFilters>[1], string]>([
    ['cursor=x', { page_size: 100 }, 'cursor=x&page_size=100'],
    ['page_size=50&cursor=x', { page_size: 100 }, 'page_size=50&cursor=x'],
    ['', { a: '1', b: '2' }, 'a=1&b=2'],
    ['b=3', { a: '1', b: '2' }, 'b=3&a=1'],
    ['cursor=x', undefined, 'cursor=x'],
    ['cursor=x', 'since=2025', 'cursor=x&since=2025'],
  ])('%j with our filters %j is %j', (query, own, whole) => {
    expect(withFilters(query, own)).toBe(whole)
  })
})

test.each([
  ['page=2&a=1', 'page', 3, 'page=3&a=1'],
  ['a=page&page=2', 'page', 3, 'a=page&page=3'],
  ['pa%67e=2', 'page', 3, 'page=3'],
  ['a=1', 'page', 3, 'a=1'],
  ['page', 'page', 3, 'page=3'],
  ['&page=1', 'page', 3, '&page=3'],
])('%s with another %s is otherwise unchanged', (query, name, value, changed) => {
  expect(withNumber(query, name, value)).toBe(changed)
})

test.each([
  ['page=2', 2],
  ['page=0', 0],
  ['a=1&page=12', 12],
  [`page=${'9'.repeat(15)}`, 999_999_999_999_999],
  [`page=${'9'.repeat(16)}`, null],
  ['page=1&page=2', null],
  ['page=-1', null],
  ['page=1x', null],
  ['page=x1', null],
  ['page=', null],
  ['a=1', null],
])('the page in %s is %s', (query, number) => {
  expect(numberIn(query, 'page')).toBe(number)
})
