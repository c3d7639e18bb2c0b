/** Query strings of our own filters. */
import { expect, test } from 'vitest'
import { queryText } from '../../src/api/paths.ts'

test.each<[Parameters<typeof queryText>[0], string]>([
  [undefined, ''],
  ['', ''],
  ['a=%20b', '?a=%20b'],
  [{}, ''],
  [{ a: null, b: undefined }, ''],
  [{ a: 'x y&z', b: 0, c: false, d: '' }, '?a=x+y%26z&b=0&c=false&d='],
])('the filters %j are the query %j', (query, text) => {
  expect(queryText(query)).toBe(text)
})
