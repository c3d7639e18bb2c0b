/** Fields of webhook configurations: only those that were given are sent, and every way to name one is read. */
import { expect, it } from 'vitest'
import { cellsOf, fieldsOf, linesOf, shownConfig } from '../../../src/commands/webhooks/fields.ts'

it('only given fields are sent, each name once', () => {
  expect(fieldsOf({})).toEqual({})
  expect(fieldsOf({ active: 'true' })).toEqual({ is_active: true })
  expect(
    fieldsOf({ active: 'false', events: 'created, updated,created', sources: 'packet_response' }),
  ).toEqual({
    ...{ is_active: false, event_types: ['created', 'updated'], sources: ['packet_response'] },
  })
  expect(fieldsOf({ url: 'HTTP://host/hooks' })).toEqual({ target_url: 'HTTP://host/hooks' })
})

it.each([
  [{ url: 'ftp://host/' }, '--url'],
  [{ url: 'https://' }, '--url'],
  [{ events: 'created,,' }, '--events'],
  [{ sources: 'a b' }, '--sources'],
  [{ sources: '' }, '--sources'],
])('%j is refused, and %s named', (options, variable) => {
  expect(() => fieldsOf(options)).toThrow(expect.objectContaining({ variable }))
})

it.each([
  ['created, updated', ['created', 'updated']],
  [
    ['created', { name: 'updated' }, { id: 7 }],
    ['created', 'updated', '7'],
  ],
  [{ created: true, updated: false, deleted: 'true' }, ['created']],
  [7, null],
  [null, null],
])('events given as %j are read as %j', (events, names) => {
  expect(shownConfig({ events } as never).event_types).toEqual(names)
  expect(shownConfig({ source_entities: events } as never).sources).toEqual(names)
})

it('a configuration has one line for each field; what the service does not return is absent, not false', () => {
  const config = shownConfig({
    id: 'c',
    target_url: 'https://h/',
    enabled: false,
    created_at: '2026',
  } as never)
  expect(config).toMatchObject({ is_active: false, created_at: '2026' })
  expect(linesOf(config)).toEqual([
    ['id', 'c'],
    ['url', 'https://h/'],
    ['events', '-'],
    ['sources', '-'],
    ['active', 'no'],
  ])
  expect(cellsOf(shownConfig({ is_active: true, active: false } as never))).toEqual([
    '-',
    '-',
    '-',
    '-',
    'yes',
  ])
  expect(cellsOf(shownConfig({ active: 'yes' } as never)).at(-1)).toBe('-')
})
