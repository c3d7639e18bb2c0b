/** One page of a list, without a service: its rows, its links, its faults, and the parameters that it knows. */
import { describe, expect, it } from 'vitest'
import type { Page } from '../../../src/emulator/http/answer.ts'
import type { Call } from '../../../src/emulator/http/call.ts'
import { listPage } from '../../../src/emulator/http/paging.ts'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import type { Listing } from '../../../src/emulator/world/table.ts'

function listed(size: number): Listing<number> {
  const all = Array.from({ length: size }, (_, index) => index)
  return {
    size,
    slice: (position, limit, newestFirst = false) =>
      (newestFirst ? all.toReversed() : all).slice(position, position + limit),
    scan: (token, limit) => ({
      rows: all.slice(token, token + limit),
      next: token + limit < size ? token + limit : null,
    }),
  }
}

function ask(
  shape: string,
  query: string,
  size = 12,
  faults: ReadonlyMap<string, string | null> = new Map(),
) {
  const call = {
    ...{ query: new URLSearchParams(query), shape: shapeNamed(shape, '1'), faults },
    ...{ origin: 'http://here', elsewhere: 'http://there', path: '/v2/x', defaultPageSize: 5 },
  } as unknown as Call
  return listPage(call, 'forms', listed(size), ['filter'], (row) => ({ row }))
}

function read(shape: string, query: string, size?: number, faults?: ReadonlyMap<string, string | null>) {
  const { rows, next, previous, count } = ask(shape, query, size, faults) as unknown as Page
  const queryOf = (link: string | null) => (link === null ? null : link.replace('http://here/v2/x?', ''))
  return { rows: rows.map(({ row }) => row as number), links: [queryOf(next), queryOf(previous)], count }
}

describe('a page', () => {
  it.each<[string, string, number[], (string | null)[]]>([
    ['default', '', [0, 1, 2, 3, 4], ['page=2', null]],
    ['default', 'page=2', [5, 6, 7, 8, 9], ['page=3', 'page=1']],
    ['default', 'page=3', [10, 11], [null, 'page=2']],
    ['default', 'page=last&page_size=6', [6, 7, 8, 9, 10, 11], [null, 'page=1&page_size=6']],
    ['default', 'limit=4&offset=8', [8, 9, 10, 11], [null, 'limit=4&offset=4']],
    ['default', 'offset=2', [2, 3, 4, 5, 6], ['offset=7&limit=5', 'offset=0&limit=5']],
    ['default', 'page_size=0', [0, 1, 2, 3, 4], ['page_size=0&page=2', null]],
    ['default', 'page_size=1&page=12', [11], [null, 'page_size=1&page=11']],
    ['default', 'limit=x&offset=-1', [0, 1, 2, 3, 4], ['limit=5&offset=5', null]],
    ['cursor', '', [0, 1, 2, 3, 4], ['cursor=cD01', null]],
    ['cursor', 'cursor=cD0xMA', [10, 11], [null, null]],
    ['newest-first', 'page=3', [1, 0], [null, 'page=2']],
    ['newest-first', 'limit=3', [11, 10, 9], ['limit=3&offset=3', null]],
    ['page-size-ignored', 'page_size=2', [0, 1, 2, 3, 4], ['page_size=2&page=2', null]],
    ['limit-offset', '', [0, 1, 2, 3, 4], ['limit=5&offset=5', null]],
    ['limit-offset', 'offset=10&page=1', [10, 11], [null, 'offset=5&page=1&limit=5']],
    ['bare-array', '', [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [null, null]],
    ['bare-array+newest-first', '', [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0], [null, null]],
    ['bare-array', 'limit=3&offset=3', [3, 4, 5], ['limit=3&offset=6', 'limit=3&offset=0']],
    ['bare-array', 'offset=9', [9, 10, 11], [null, 'offset=4&limit=5']],
    ['bare-array', 'page_size=3', [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [null, null]],
    ['bare-array', 'page=2', [5, 6, 7, 8, 9], ['page=3', 'page=1']],
    ['empty-past-end', 'page=4', [], [null, 'page=3']],
  ])('in the shape %s, asked for by "%s", has its rows and links', (shape, query, rows, links) => {
    expect(read(shape, query)).toEqual({ rows, links, count: 12 })
  })

  it('is followed by another one only if there are more rows, however pages are asked for', () => {
    for (const [shape, query] of [
      ['default', 'page_size=4'],
      ['default', 'limit=4'],
      ['cursor', 'page_size=4'],
    ] as const) {
      const pages: number[][] = []
      for (let next: string | null = query; next !== null; ) {
        const page: ReturnType<typeof read> = read(shape, next)
        pages.push(page.rows)
        next = page.links[0] ?? null
      }
      expect(pages).toEqual([
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
      ])
    }
  })
})

describe('a page with a fault', () => {
  it.each<[string, string | null, string, number[], (string | null)[], number]>([
    ['wrong-count', null, '', [0, 1, 2, 3, 4], ['page=2', null], 19],
    ['wrong-count', '-3', '', [0, 1, 2, 3, 4], ['page=2', null], 9],
    ['wrong-count', '-13', '', [0, 1, 2, 3, 4], ['page=2', null], 0],
    ['drop-rows', null, '', [0, 1, 3, 4], ['page=2', null], 12],
    ['duplicate-rows', null, '', [0, 1, 2, 3, 4, 0], ['page=2', null], 12],
    ['repeat-page', null, '', [0, 1, 2, 3, 4], ['page=2', null], 12],
    ['repeat-page', null, 'page=3', [5, 6, 7, 8, 9], [null, 'page=2'], 12],
    ['repeat-page', null, 'offset=3', [0, 1, 2, 3, 4], ['offset=8&limit=5', 'offset=0&limit=5'], 12],
    ['shift-rows', null, '', [0, 1, 2, 3, 4], ['page=2', null], 12],
    ['shift-rows', null, 'page=2', [4, 5, 6, 7, 8], ['page=3', 'page=1'], 12],
    ['shift-rows', null, 'page=3', [11], [null, 'page=2'], 12],
    ['next-loop', null, 'page=2', [5, 6, 7, 8, 9], ['page=2', 'page=1'], 12],
    ['next-loop', null, 'page=3', [10, 11], [null, 'page=2'], 12],
    ['next-elsewhere', null, '', [0, 1, 2, 3, 4], ['http://there/v2/x?page=2', null], 12],
    ['next-elsewhere', null, 'page=3', [10, 11], [null, 'page=2'], 12],
  ])(
    '%s:%s, asked for by "%s", has these rows, links and count',
    (fault, argument, query, rows, links, count) => {
      expect(read('default', query, 12, new Map([[fault, argument]]))).toEqual({ rows, links, count })
    },
  )
})

it.each<[string, string, string, number[], (string | null)[], number]>([
  ['limit-offset', 'repeat-page', 'limit=4&offset=8', [4, 5, 6, 7], [null, 'limit=4&offset=4'], 12],
  [
    'limit-offset',
    'shift-rows',
    'limit=4&offset=4',
    [3, 4, 5, 6],
    ['limit=4&offset=8', 'limit=4&offset=0'],
    12,
  ],
  ['limit-offset', 'shift-rows', 'limit=4&offset=8', [9, 10, 11], [null, 'limit=4&offset=4'], 12],
  ['newest-first', 'repeat-page', 'page=2', [11, 10, 9, 8, 7], ['page=3', 'page=1'], 12],
  ['newest-first', 'drop-rows', 'page=3', [1], [null, 'page=2'], 12],
  ['newest-first', 'duplicate-rows', 'page=3', [1, 0, 1], [null, 'page=2'], 12],
  ['cursor', 'repeat-page', 'cursor=cD01', [5, 6, 7, 8, 9], ['cursor=cD0xMA', null], 12],
  ['cursor', 'drop-rows', 'cursor=cD01', [5, 6, 8, 9], ['cursor=cD0xMA', null], 12],
  ['cursor', 'next-loop', 'cursor=cD01', [5, 6, 7, 8, 9], ['cursor=cD01', null], 12],
  ['cursor', 'next-loop', '', [0, 1, 2, 3, 4], ['', null], 12],
  [
    'cursor',
    'next-elsewhere',
    'page_size=6',
    [0, 1, 2, 3, 4, 5],
    ['http://there/v2/x?page_size=6&cursor=cD02', null],
    12,
  ],
  ['cursor', 'wrong-count', 'cursor=cD0xMA', [10, 11], [null, null], 19],
  ['bare-array', 'drop-rows', '', [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11], [null, null], 12],
  ['bare-array', 'repeat-page', 'page=2', [0, 1, 2, 3, 4], ['page=3', 'page=1'], 12],
  ['next-relative', 'next-loop', 'page=2', [5, 6, 7, 8, 9], ['/v2/x?page=2', '/v2/x?page=1'], 12],
  ['next-query', 'next-elsewhere', 'page=2', [5, 6, 7, 8, 9], ['?page=3', '?page=1'], 12],
  ['empty-past-end', 'repeat-page', 'page=4', [10, 11], [null, 'page=3'], 12],
  ['default', 'drop-rows,duplicate-rows', 'page_size=1', [], ['page_size=1&page=2', null], 12],
  ['default', 'repeat-page,shift-rows', 'page=2', [0, 1, 2, 3, 4], ['page=3', 'page=1'], 12],
  ['default', 'next-loop,next-elsewhere', 'page=2', [5, 6, 7, 8, 9], ['page=2', 'page=1'], 12],
  ['default', 'wrong-count,next-loop', 'page=3', [10, 11], [null, 'page=2'], 19],
])(
  'in the shape %s with %s, asked for by "%s", a page has these rows, links and count',
  (shape, faults, query, rows, links, count) => {
    const all = new Map(faults.split(',').map((name) => [name, null]))
    expect(read(shape, query, 12, all)).toEqual({ rows, links, count })
  },
)

it('numbers of more than fifteen digits ask for nothing, and no page is too large for them', () => {
  const many = '9'.repeat(16)
  expect(read('default', `page_size=${many}`).rows).toHaveLength(5)
  expect(read('default', `limit=${many}&offset=${many}`).rows).toEqual([0, 1, 2, 3, 4])
  expect(ask('empty-past-end', `page=${many}`)).toMatchObject({ status: 404 })
  expect(read('default', `limit=${many.slice(1)}&offset=${many.slice(1)}`).rows).toEqual([])
})

it('a page before the first is none, also where one past the end is empty', () => {
  for (const shape of ['default', 'empty-past-end'])
    for (const page of ['0', '-1', 'x', ''])
      expect([shape, page, ask(shape, `page=${page}`)]).toMatchObject([
        shape,
        page,
        { status: 404, detail: 'Invalid page.' },
      ])
})

describe('a parameter that a list does not know', () => {
  it('is refused by name in the shape unknown-parameter-refused, and all others are known', () => {
    const refused = ask('unknown-parameter-refused', 'page=1&filtre=x')
    expect(refused).toMatchObject({
      type: 'failure',
      status: 400,
      detail: 'Validation error.',
      field: 'filtre',
    })
    const known = 'page=1&page_size=5&limit=5&offset=0&cursor=x&filter=y'
    expect(ask('unknown-parameter-refused', known)).toMatchObject({ type: 'page' })
    expect(ask('default', 'filtre=x')).toMatchObject({ type: 'page' })
  })
})

it('a cursor that is none is refused', () => {
  for (const cursor of ['zzz', '', 'cT0x', 'cD14', 'eHA9MQ', 'cD0xeA']) {
    expect([cursor, ask('cursor', `cursor=${cursor}`)]).toMatchObject([
      cursor,
      { status: 404, detail: 'Invalid cursor' },
    ])
    expect([cursor, ask('cursor-400', `cursor=${cursor}`)]).toMatchObject([cursor, { status: 400 }])
  }
})
