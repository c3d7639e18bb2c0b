/** How lists, links and errors are written in each shape, without a service; and which shapes are drawn together. */
import { describe, expect, it } from 'vitest'
import { matterOf, SHAPE_NAMES, shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'

const shape = (name: string) => shapeNamed(name, '1')
const rows = [{ id: 'a' }, { id: 'b' }]
const page = { resource: 'patients', rows, count: 9, next: 'http://h/v2/patients?page=2', previous: null }
const { next, previous, count } = page

describe('a list', () => {
  it.each<[string, object]>([
    ['default', { value: { count, next, previous, results: rows } }],
    ['no-count', { value: { next, previous, results: rows } }],
    ['data-envelope', { value: { data: rows, count, next, previous } }],
    ['items-envelope', { value: { items: rows, count, next, previous } }],
    ['resource-envelope', { value: { count, next, previous, patients: rows } }],
    ['bare-array', { value: rows }],
    ['link-header', { value: rows, headers: { link: `<${next}>; rel="next"` } }],
  ])('in the shape %s is written so', (name, body) => {
    expect(shape(name).envelope(page)).toEqual(body)
  })

  it('has no Link header on its last page', () => {
    expect(shape('link-header').envelope({ ...page, next: null })).toEqual({ value: rows })
  })

  const usual = {
    ...{ style: 'page', pastEnd: 'not-found', pageSize: 'capped', unknownParameters: 'ignored' },
    ...{ newestFirst: false, badCursor: 404 },
  }

  it.each<[string, object]>([
    ['default', {}],
    ['bare-array', { style: 'whole' }],
    ['limit-offset', { style: 'limit-offset' }],
    ['cursor', { style: 'cursor' }],
    ['cursor-400', { style: 'cursor', badCursor: 400 }],
    ['empty-past-end', { pastEnd: 'empty' }],
    ['page-size-ignored', { pageSize: 'ignored' }],
    ['unknown-parameter-refused', { unknownParameters: 'refused' }],
    ['newest-first', { newestFirst: true }],
    ['cursor+newest-first+page-size-ignored', { style: 'cursor', newestFirst: true, pageSize: 'ignored' }],
  ])('in the shape %s is paged so', (name, paging) => {
    expect(shape(name).paging).toEqual({ ...usual, ...paging })
  })
})

describe('an error', () => {
  const failure = (status: number, detail: string, field?: string) => ({
    ...{ type: 'failure' as const, status, detail },
    ...(field === undefined ? {} : { field }),
  })
  const invalid = failure(400, 'Validation error.', 'email')
  const gone = failure(404, 'Patient not found.')
  const throttled = (seconds: number) =>
    failure(429, `Request was throttled. Expected available in ${seconds} seconds.`)

  it.each<[string, ReturnType<typeof failure>, object]>([
    ['default', invalid, { value: { detail: 'Validation error.' } }],
    ['validation-errors-object', invalid, { value: { email: ['Validation error.'] } }],
    ['validation-errors-object', failure(400, 'No.'), { value: { non_field_errors: ['No.'] } }],
    ['validation-errors-object', gone, { value: { detail: gone.detail } }],
    ['validation-errors-list', invalid, { value: ['Validation error.'] }],
    ['validation-errors-list', gone, { value: { detail: gone.detail } }],
    [
      'throttle-silent',
      throttled(3),
      { value: { detail: 'Request was throttled.' }, headers: { 'retry-after': '' } },
    ],
    ['throttle-silent', gone, { value: { detail: gone.detail } }],
    [
      'throttle-second',
      throttled(1),
      {
        value: { detail: 'Request was throttled. Expected available in 1 second.' },
        headers: { 'retry-after': '' },
      },
    ],
    [
      'throttle-second',
      throttled(11),
      { value: { detail: throttled(11).detail }, headers: { 'retry-after': '' } },
    ],
    ['throttle-second', gone, { value: { detail: gone.detail } }],
  ])('in the shape %s is written so: %j', (name, given, body) => {
    expect(shape(name).failure(given)).toEqual(body)
  })
})

it('shapes that are drawn at random are one of each matter at most, remove nothing, and leave a whole list whole', () => {
  const drawn = Array.from({ length: 300 }, (_, seed) => shapeNamed('random', String(seed)).names)
  for (const names of drawn) {
    expect(new Set(names.map(matterOf)).size).toBe(names.length)
    if (names.includes('bare-array')) expect(names.map(matterOf)).not.toContain('paging')
  }
  const never = SHAPE_NAMES.filter((name) => !drawn.some((names) => names.includes(name)))
  expect(never.toSorted()).toEqual([
    ...['deleted-empty', 'deleted-null', 'huge-ids', 'input-fields-null', 'trailing-slash'],
    'unknown-parameter-refused',
  ])
})

it('shapes apply in one order, however they are named', () => {
  const names = ['uid-ids', 'answers-object', 'nested-parts', 'newest-first', 'default']
  expect(shape(names.join('+')).names).toEqual(['newest-first', 'nested-parts', 'answers-object', 'uid-ids'])
})
