/** Shapes of a list answer, and answers that must never be taken for its end, or for an empty list. */
import { describe, expect, test } from 'vitest'
import { readList } from '../../../src/api/paging/list-envelope.ts'

const PATH = '/v2/patients'
const ROWS = [{ id: 'a' }]
const read = (body: unknown, link?: string) =>
  readList(body, link === undefined ? {} : { link }, 'patients', PATH)

describe('the next page', () => {
  test.each([
    ['an object with href', { next: { href: 'https://x/y?page=2' } }],
    ['an object with url', { next: { url: '/y?page=2' } }],
    ['a number', { next: 2 }],
    ['links.next', { links: { next: '?page=2' } }],
    ['links.next with href', { links: { next: { href: '?page=2' } } }],
    ['_links.next with href', { _links: { next: { href: '?page=2' } } }],
    ['meta.next', { meta: { next: '?page=2' } }],
    ['meta.next with href', { meta: { next: { href: '?page=2' } } }],
    ['a link next to an empty one', { next: null, links: { next: '?page=2' } }],
    ['a link next to has_more', { next: '?page=2', has_more: true }],
    ['an object with both', { next: { href: '?page=2', url: '?page=9' } }],
  ])('is read from %s', (_name, more) => {
    expect(read({ results: ROWS, ...more })).toMatchObject({ next: 'page=2', endKnown: true })
  })

  test('is that of the body where a Link header has another', () => {
    const list = read({ results: ROWS, next: '?page=2' }, '<https://x/y?page=9>; rel="next"')
    expect(list).toMatchObject({ next: 'page=2', endKnown: true })
  })

  test.each([
    ['prev', true],
    ['previous', true],
    ['first', true],
    ['last', true],
    ['self', false],
  ])('is none if a Link header has only that of rel=%s; the end is known: %s', (rel, endKnown) => {
    expect(read(ROWS, `<https://x/y?page=1>; rel="${rel}"`)).toMatchObject({ next: null, endKnown })
  })

  test.each([
    '<https://x/y?page=2>; rel="next"',
    '<https://x/y?page=2>; rel=next',
    '<https://x/y?page=2>;rel="alternate next"',
    '<https://x/y?page=2>; title="a, b; c"; rel="next"; crossorigin',
    '<https://x/y?page=2>; crossorigin; rel=next',
    '<https://x/y?page=1>; rel=prev, <https://x/y?page=2>; rel=next',
    '<https://x/y?page=1>; rel="prev"; title=x, <https://x/y?page=2>; title="next"; rel="next"',
    '<https://x/y?page=9>; rel="nextweek", <https://x/y?page=2>; rel="next"',
  ])('is read from the Link header %s', (link) => {
    expect(read(ROWS, link)).toMatchObject({ next: 'page=2', endKnown: true })
  })

  test('may have the number zero', () => {
    expect(read({ results: ROWS, next: 0 })).toMatchObject({ next: 'page=0', endKnown: true })
  })

  test('is read from a Link header together with has_more', () => {
    const list = read({ results: ROWS, has_more: true }, '<https://x/y?page=2>; rel="next"')
    expect(list).toMatchObject({ next: 'page=2', endKnown: true })
  })

  test.each([
    ['true', { next: true }],
    ['a list', { next: ['?page=2'] }],
    ['an object without a link', { next: { cursor: 'canary' } }],
    ['an object whose link is none', { next: { href: 7 } }],
    ['an object whose link is empty', { next: { href: '' } }],
    ['a number below zero', { next: -1 }],
    ['a fraction', { next: 1.5 }],
    ['a link elsewhere that is none', { next: null, _links: { next: { name: 'canary' } } }],
    ['has_more alone', { has_more: true }],
    ['has_more with an empty next', { next: null, has_more: true }],
    ['has_more under meta', { meta: { has_more: true } }],
    ['next_cursor', { next_cursor: 'canary' }],
    ['next_page_token', { next_page_token: 'canary' }],
  ])('is never skipped: %s is an error', (_name, more) => {
    const attempt = () => read({ results: ROWS, ...more })
    expect(attempt).toThrow(
      expect.objectContaining({
        code: 'list_unreadable',
        verdict: 'stop',
        message: `GET ${PATH}: the link to the next page cannot be read`,
      }),
    )
  })

  test.each([
    ['null', { next: null }, true],
    ['empty', { next: '' }, true],
    ['null under links', { links: { next: null } }, true],
    ['not said', {}, false],
    ['no more', { has_more: false, next_cursor: null, next_page_token: '' }, false],
  ])('does not exist if the field is %s', (_name, more, endKnown) => {
    expect(read({ results: ROWS, ...more })).toMatchObject({ next: null, endKnown })
  })
})

test.each([
  [{ count: 7 }, 7],
  [{ count: 0 }, 0],
  [{ count: '17' }, 17],
  [{ total: 7 }, 7],
  [{ total: '7' }, 7],
  [{ count: null, total: 7 }, 7],
  [{ count: 8, total: 7 }, 8],
  [{ count: '7.0' }, null],
  [{ count: '' }, null],
  [{ count: -1 }, null],
  [{ count: 2 ** 53 }, null],
  [{ total: { value: 7 } }, null],
  [{}, null],
])('the count of %j is %j', (more, count) => {
  expect(read({ results: ROWS, ...more })?.count).toBe(count)
})

test.each([
  [{ results: null }],
  [{ results: null, warnings: [{ id: 'a' }] }],
  [{ warnings: [] }],
  [{ warnings: ['text'] }],
  [{ people: [{ id: 'a' }, 'text'] }],
  [{ people: [{ id: 'a' }], places: [{ id: 'b' }] }],
  [{ errors: [{ row: 1 }] }],
  [{ error: 'x', people: [{ id: 'a' }] }],
  [{ detail: 'x', people: [{ id: 'a' }] }],
  [{ detail: 'x', results: [] }],
  [{ errors: ['x'], data: [] }],
])('%j is no list', (body) => {
  expect(read(body)).toBeNull()
})

test.each([
  [{ people: [{ id: 'a' }] }, 1],
  [{ results: [], errors: [], error: null }, 0],
  [{ data: [{ id: 'a' }], errors: ['x'] }, 1],
])('%j is one', (body, length) => {
  expect(read(body)?.records).toHaveLength(length)
})
