/** The meaning of one stored event: its times, what its dead letter contains, and when it may be partial. */
import { describe, expect, test } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import {
  deadLetterBody,
  lacksStoredValues,
  lacksUsualFields,
  readStoredEvent,
} from '../../../src/ingest/drain/read-event.ts'
import { responses } from '../../../src/streams/responses.ts'
import { at } from '../../support/envelopes.ts'

const seconds = (count: number): Instant => at(count * 1_000_000)
const RECEIVED = seconds(0)

function read(event: object | Buffer, apiVersion = 'v2.1') {
  const body = Buffer.isBuffer(event) ? event : Buffer.from(JSON.stringify({ id: 'e', ...event }))
  return readStoredEvent({ teamId: 3, eventId: 'e', receivedAt: RECEIVED, body }, apiVersion)
}
/** The state of an event that has one. */
function stateOf(event: object | Buffer) {
  const { result } = read(event)
  if (result.kind !== 'state') throw new Error(`it is ${result.kind}`)
  return result.envelope
}
const patientEvent = (more: object = {}) => ({
  ...{ source: 'patient', event_type: 'updated', timestamp: seconds(-10) },
  ...{ data: { id: 'p', first_name: 'Ann' } },
  ...more,
})
const packetEvent = (more: object = {}) => ({
  ...patientEvent(),
  ...{ source: 'packet_response', data: { id: 'k', is_submitted: false, ...more } },
})

describe('the time of an event', () => {
  test.each<[string, Instant, boolean]>([
    ['five minutes after it arrived counts', seconds(300), true],
    ['a microsecond later does not', at(300_000_001), false],
  ])('%s', (_, timestamp, counts) => {
    const { result } = read(patientEvent({ timestamp }))
    expect(result.kind).toBe(counts ? 'state' : 'fetch')
    if (result.kind === 'state') expect(result.envelope.version).toBe(timestamp)
  })

  test.each<[string, object, Instant]>([
    ['is its stamp', {}, seconds(-10)],
    ['without a stamp is that of the update', { timestamp: null, updated: seconds(-7) }, seconds(-7)],
    ['without a stamp is that of an update as it arrived', { timestamp: null, updated: RECEIVED }, RECEIVED],
    ['without any is a minute before it arrived', { timestamp: null }, seconds(-60)],
    ['is not that of an update to come', { timestamp: null, updated: at(1) }, seconds(-60)],
    ['is not that of an unreadable update', { timestamp: null, updated: 'now' }, seconds(-60)],
  ])('about a record that cannot be fetched %s', (_, { updated, ...event }: { updated?: string }, time) => {
    for (const event_type of ['updated', 'deleted'])
      expect(
        stateOf({ ...packetEvent({ updated_at: updated }), event_type, ...event }).observedAt,
        event_type,
      ).toBe(time)
  })

  test('decides about a deletion, unless its record was updated later', () => {
    const gone = (updated_at: unknown) =>
      stateOf(patientEvent({ event_type: 'deleted', data: { id: 'p', updated_at } }))
    for (const [updated, version] of [
      [undefined, seconds(-10)],
      [seconds(-20), seconds(-10)],
      [seconds(-5), seconds(-5)],
      [seconds(300), seconds(300)],
      [seconds(301), seconds(-10)],
    ] as const)
      expect(gone(updated)).toMatchObject({ content: null, version, updatedAt: version, teamId: 3, id: 'p' })
  })
})

test('an event without a stamp has its record fetched: for a deletion because of a conflict, otherwise as partial', () => {
  for (const [event_type, reason] of [
    ['deleted', 'contested'],
    ['updated', 'partial'],
  ])
    expect(read(patientEvent({ event_type, timestamp: undefined })).result).toMatchObject({
      ...{ kind: 'fetch', id: 'p', reason, stream: { name: 'patients' } },
    })
})

test('the version that a team requests decides whether a record is whole', () => {
  const document = patientEvent({ source: 'document', data: { id: 'd', name: 'HIPAA' } })
  expect([read(document, 'v2.1').result.kind, read(document, '').result.kind]).toEqual(['fetch', 'state'])
})

test('bytes that are no text are a problem of the record', () => {
  const body = Buffer.from(JSON.stringify({ id: 'e', ...patientEvent() }).replace('Ann', 'A?n'))
  body[body.indexOf('?')] = 0x96
  expect(stateOf(body).content).toMatchObject({
    payload: { first_name: 'A\\x96n' },
    problems: [{ path: 'first_name' }],
  })
  expect(stateOf(patientEvent()).content!.problems).toEqual([])
})

test.each([
  ['an event without a body', Buffer.alloc(0)],
  ['an event that is not JSON', Buffer.from('{')],
  ['an event that is not a JSON object', Buffer.from('[]')],
  ['an event with more levels or values than are read', Buffer.from('['.repeat(100_000))],
  ['an event without a source', Buffer.from('{"source":""}')],
])('%s says so in its dead letter, with its bytes', (reason, body) => {
  expect(read(body)).toEqual({
    result: {
      kind: 'dead',
      stream: 'inbox',
      deadLetter: { recordId: null, origin: 'event:e', reason, body },
    },
    drift: null,
  })
})

test.each([
  ['a'.repeat(40), 'a'.repeat(40)],
  ['a'.repeat(41), '(other)'],
  ['new_Type', 'new_Type'],
  ['new-type', '(other)'],
])('a new event type or source %s is reported as %s', (name, shown) => {
  expect(read(patientEvent({ event_type: name })).drift).toEqual({
    ...{ stream: 'patients', path: `event_type.${shown}`, type: 'string' },
  })
  expect(read(patientEvent({ source: name }))).toEqual({
    ...{ result: { kind: 'nothing' }, drift: { stream: 'inbox', path: `source.${shown}`, type: 'string' } },
  })
})

test.each<[unknown, string]>([
  [undefined, 'null'],
  [null, 'null'],
  [7, 'number'],
  [{}, 'object'],
])('an event type that is no text, as %j, is reported by its type', (event_type, type) => {
  expect(read(patientEvent({ event_type })).drift).toEqual({ stream: 'patients', path: 'event_type', type })
})

test('the body of a dead letter is that of the event, without what may not be stored', () => {
  const event = {
    ...patientEvent({ source: 'response' }),
    data: { id: 'r', files: [{ url: 'https://a.example/f?key=1' }] },
  }
  const body = Buffer.from(JSON.stringify(event))
  expect(deadLetterBody(body, undefined)).toBe(body)
  expect(JSON.parse(deadLetterBody(body, responses).toString())).toEqual({
    ...event,
    data: { id: 'r', files: [{ url: 'https://a.example/f' }] },
  })
  const unread = Buffer.from('[1]')
  expect(deadLetterBody(unread, responses)).toBe(unread)
})

test('what is stored empty is no value that an event may lack', () => {
  for (const value of [null, '', [], {}]) expect(lacksStoredValues({ a: value })).toBe(false)
  for (const value of [0, false, ' ', [null], { b: null }])
    expect(lacksStoredValues({ a: null, b: value }), JSON.stringify(value)).toBe(true)
  expect(lacksStoredValues({})).toBe(false)
})

test('a record lacks a usual field if it is left out, not if it is empty', () => {
  expect(lacksUsualFields({ a: null, b: '' }, ['a', 'b'])).toBe(false)
  expect(lacksUsualFields({ a: 1, c: 1 }, ['a', 'b'])).toBe(true)
  expect(lacksUsualFields({}, [])).toBe(false)
})
