/** The ingester and the drain read the same source and record id from an event. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readStoredEvent } from '../../../src/ingest/drain/read-event.ts'
import { readEvent } from '../../../src/ingest/inbox/event.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { at } from '../../support/envelopes.ts'
import { often } from '../../support/thorough.ts'

/** JSON texts in the place of an id. */
const idText = fc.oneof(
  fc.constantFrom(
    '"r1"',
    '1',
    '1.0',
    '1e2',
    '-0',
    '9007199254740993',
    'null',
    '""',
    '"  "',
    '[]',
    '{}',
    'true',
  ),
  fc.string({ unit: 'binary', maxLength: 8 }).map((text) => JSON.stringify(text)),
)
const keyText = fc.constantFrom('id', 'uid', '__proto__', 'i\\u0064', 'name', 'updated_at')
const objectText = fc
  .array(fc.tuple(keyText, fc.oneof(idText, fc.constant('{"id":"inner"}'))), { maxLength: 4 })
  .map((pairs) => `{${pairs.map(([key, value]) => `"${key}":${value}`).join(',')}}`)
const source = fc.constantFrom(...ALL_STREAMS.flatMap((stream) => stream.source ?? []), 'invoice')
/** Numbers that make the body use the lossless parser. */
const ballast = fc.constantFrom('', ',"n":1.50', ',"n":12345678901234567890')
const eventText = fc
  .tuple(source, fc.constantFrom('created', 'deleted', 'odd'), fc.oneof(objectText, idText), ballast)
  .map(
    ([from, type, data, rest]) =>
      `{"id":"e1","timestamp":"2026-01-01T00:00:00Z","source":"${from}","event_type":"${type}","data":${data}${rest}}`,
  )
const body = fc.oneof(
  eventText.map((text) => Buffer.from(text)),
  eventText.map((text) => Buffer.from(`\ufeff ${text}`)),
  fc.tuple(eventText, fc.nat()).map(([text, where]) => {
    const bytes = Buffer.from(text)
    bytes[where % bytes.length] = 0x96
    return bytes
  }),
)

test('a loaded or refetched event is stored in the inbox with its source and the id of its record', () => {
  const kinds = new Set<string>()
  fc.assert(
    fc.property(body, (bytes) => {
      const noted = readEvent(1, bytes)
      const stored = { teamId: 1, eventId: noted.eventId, receivedAt: at(1), body: bytes }
      const { result } = readStoredEvent(stored, 'v2.1')
      kinds.add(result.kind)
      if (result.kind !== 'state' && result.kind !== 'fetch') return
      const id = result.kind === 'fetch' ? result.id : result.envelope.id
      expect([noted.source, noted.recordId]).toEqual([result.stream.source, id])
    }),
    { numRuns: often(3_000, 100_000) },
  )
  expect([...kinds].sort()).toEqual(['dead', 'fetch', 'nothing', 'state'])
})

test.each([
  ['of 100 bytes', 'é'.repeat(50), true],
  ['of 101 bytes', `${'é'.repeat(50)}x`, false],
  ['with NUL', 'a\0b', false],
  ['with a lone surrogate', 'a\ud83d', false],
  ['that is empty', '', false],
  ['that is a number', 7, false],
])('an event type or source %s is stored as it is, or not at all', (_, name, isStored) => {
  const noted = readEvent(1, Buffer.from(JSON.stringify({ id: 'e', event_type: name, source: 'form' })))
  expect([noted.eventType, noted.source]).toEqual([isStored ? name : null, 'form'])
  const other = readEvent(1, Buffer.from(JSON.stringify({ id: 'e', event_type: 'odd', source: name })))
  expect([other.eventType, other.source]).toEqual(['odd', isStored ? name : null])
})

test.each([
  ['id', { id: 1 }, ['1', 'r']],
  ['uid', { uid: 1 }, ['1', 'r']],
  ['data.id', { id: 'e', data: { id: 1 } }, ['e', '1']],
  ['data.uid', { id: 'e', data: { uid: 1 } }, ['e', '1']],
  ['data', { id: 'e', data: 1 }, ['e', '1']],
])('a whole number as %s is an id, and one that is written otherwise is none', (_, event, ids) => {
  const text = JSON.stringify({ source: 'form', data: { id: 'r' }, ...event })
  const idsIn = (number: string) => {
    const { eventId, recordId } = readEvent(1, Buffer.from(text.replace(/:1(?=[,}])/, `:${number}`)))
    return [eventId.replace(/^unreadable:.*/, 'none'), recordId ?? 'none']
  }
  expect(idsIn('1')).toEqual(ids)
  for (const odd of ['1.0', '1e0', '9007199254740993'])
    expect([odd, ...idsIn(odd)]).toEqual([odd, ...ids.map((id) => id.replace('1', 'none'))])
})
