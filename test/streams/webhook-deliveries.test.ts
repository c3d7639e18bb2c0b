/** The time of an attempt to deliver, which orders the attempts of one event whenever they are read. */
import { LosslessNumber } from 'lossless-json'
import { expect, test } from 'vitest'
import { webhookDeliveries } from '../../src/streams/webhook-deliveries.ts'

const at = (record: object) => webhookDeliveries.entryAt!({ id: 'e', ...record })

test.each([
  ['its own time', { created_at: '2026-01-02T10:00:00+01:00' }, '2026-01-02T09:00:00.000000Z'],
  ['the first one', { created_at: '2026-01-02T09:00:00Z', attempts: 1 }, '2026-01-02T09:00:00.000001Z'],
  ['the third one', { created_at: '2026-01-02T09:00:00Z', attempts: '3' }, '2026-01-02T09:00:00.000003Z'],
  [
    'a number as it is read',
    { created_at: '2026-01-02T09:00:00Z', attempts: new LosslessNumber('7') },
    '2026-01-02T09:00:00.000007Z',
  ],
  [
    'a number below zero',
    { created_at: '2026-01-02T09:00:00Z', attempts: -2 },
    '2026-01-02T09:00:00.000000Z',
  ],
  ['one of many', { created_at: '2026-01-02T09:00:00.5Z', attempts: 5_000 }, '2026-01-02T09:00:00.500999Z'],
  ['a number alone', { attempts: 2 }, '1970-01-01T00:00:00.000002Z'],
  [
    'a number with a time that cannot be read',
    { created_at: 'soon', attempts: 2 },
    '1970-01-01T00:00:00.000002Z',
  ],
  ['a number with a time of another type', { created_at: 5, attempts: 1 }, '1970-01-01T00:00:00.000001Z'],
  [
    'a time with a number that cannot be read',
    { created_at: '2026-01-02T09:00:00Z', attempts: 'many' },
    '2026-01-02T09:00:00.000000Z',
  ],
])('an attempt with %s is of then', (_, record, expected) => {
  expect(at(record)).toBe(expected)
})

test.each([
  ['neither time nor number', {}],
  ['a time that cannot be read', { created_at: 'soon' }],
  ['a time of another type', { created_at: 1_767_344_400, attempts: 0 }],
  ['a number below one', { attempts: -1 }],
  ['a number that cannot be read', { attempts: 'many' }],
])('an attempt with %s has no time', (_, record) => {
  expect(at(record)).toBeNull()
})
