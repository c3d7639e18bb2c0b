/** A record becomes an envelope that has all of it, or a dead letter that has all of it and says why. */
import { describe, expect, test } from 'vitest'
import { contentHash } from '../../src/core/canonical.ts'
import type { StreamName } from '../../src/core/envelope.ts'
import { parseText } from '../../src/core/json.ts'
import { type Reading, readRecord, tombstone } from '../../src/normalize/read-record.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { at } from '../support/envelopes.ts'

const reading = (stream: StreamName, more: Partial<Reading> = {}): Reading => ({
  teamId: 3,
  stream: streamNamed(stream)!,
  origin: 'run:1 page:2',
  observedAt: at(0),
  invalidUtf8: false,
  ...more,
})

function envelopeOf(stream: StreamName, json: string, more?: Partial<Reading>) {
  const read = readRecord(parseText(json), reading(stream, more))
  if (read.kind === 'dead') throw new Error(read.deadLetter.reason)
  return read.envelope
}

function deadLetterOf(input: unknown, stream: StreamName = 'patients') {
  const read = readRecord(input, reading(stream))
  if (read.kind !== 'dead') throw new Error('it was read')
  return read.deadLetter
}

const nested = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}1${']'.repeat(levels)}`)

describe('a record', () => {
  test('becomes an envelope with its key, its versions and its content', () => {
    expect(envelopeOf('patients', '{"updated_at":"2025-01-01T00:00:00Z","id":"p"}')).toEqual({
      teamId: 3,
      stream: 'patients',
      id: 'p',
      version: at(0),
      observedAt: at(0),
      updatedAt: '2025-01-01T00:00:00.000000Z',
      origin: 'run:1 page:2',
      content: {
        payload: { id: 'p', updated_at: '2025-01-01T00:00:00Z' },
        text: '{"id":"p","updated_at":"2025-01-01T00:00:00Z"}',
        asReceived: null,
        hash: contentHash('{"id":"p","updated_at":"2025-01-01T00:00:00Z"}'),
        problems: [],
      },
    })
  })

  test('whose stamp is more than five minutes ahead reports it, and is another content than one whose stamp counts', () => {
    const json = '{"id":"p","updated_at":"2026-01-01T12:06:00Z"}'
    const ahead = envelopeOf('patients', json)
    expect(ahead).toMatchObject({ version: at(0), updatedAt: null })
    expect(ahead.content!.problems).toEqual([
      {
        path: 'updated_at',
        reason: "more than 5 minutes ahead of the service's clock; does not count as version",
        original: '2026-01-01T12:06:00Z',
      },
    ])
    const counted = envelopeOf('patients', json, { readBy: at(120_000_000) })
    expect(counted).toMatchObject({ version: at(360_000_000), updatedAt: at(360_000_000) })
    expect(counted.content!.problems).toEqual([])
    expect(counted.content!.text).toBe(ahead.content!.text)
    expect(counted.content!.hash).not.toBe(ahead.content!.hash)
    // Whatever the stream: the reason why the stamp does not count is part of every later content too.
    expect(envelopeOf('patients', json, { observedAt: at(1) }).content!.hash).toBe(ahead.content!.hash)
    const other = json.replace('"p"', '"p","city":"Ulm"')
    expect(envelopeOf('patients', other).content!.hash).not.toBe(ahead.content!.hash)
  })

  test('keeps its text as received where jsonb would write a number otherwise, and only then', () => {
    expect(envelopeOf('patients', '{"b":1e2,"id":"p"}').content!.asReceived).toBe('{"b":1e2,"id":"p"}')
    expect(envelopeOf('patients', '{"b":-0,"id":"p"}').content!.asReceived).toBe('{"b":-0,"id":"p"}')
    expect(envelopeOf('patients', '{"b":1.50,"id":"p"}').content!.asReceived).toBeNull()
  })

  test('keeps its text as received where the order of its keys counts', () => {
    const keyed = '{"id":"r","answers":{"b":"1","a":"2"}}'
    expect(envelopeOf('responses', keyed).content!.asReceived).toBe(keyed)
    expect(envelopeOf('responses', '{"id":"r","answers":[{"b":1,"a":2}]}').content!.asReceived).toBeNull()
    const fields = '{"id":"d","input_fields":{"b":{},"a":{}}}'
    expect(envelopeOf('documents', fields).content!.asReceived).toBe(fields)
    expect(envelopeOf('documents', '{"id":"d","input_fields":[]}').content!.asReceived).toBeNull()
  })

  test('with what Postgres cannot store has it written visibly, and is another content than one that came so', () => {
    const nul = envelopeOf('patients', '{"id":"p","last_name":"a\\u0000"}').content!
    const spelled = envelopeOf('patients', '{"id":"p","last_name":"a\\\\u0000"}').content!
    expect(nul.payload).toEqual({ id: 'p', last_name: 'a\\u0000' })
    expect(nul.text).toBe(spelled.text)
    expect(nul.problems).toEqual([
      {
        path: 'last_name',
        reason: 'holds what Postgres cannot; written visibly',
        original: 'a\\u0000',
      },
    ])
    expect(nul.hash).not.toBe(spelled.hash)
    expect(nul.asReceived).toBeNull()
    expect(spelled.problems).toEqual([])
  })

  test('with what Postgres cannot store, where the order of keys counts, keeps that order and the visible form', () => {
    const content = envelopeOf('responses', '{"id":"r","answers":{"b":"\\u0000","a":"2"}}').content!
    expect(content.asReceived).toBe('{"id":"r","answers":{"b":"\\\\u0000","a":"2"}}')
  })

  test('names bytes that were no UTF-8, if its body contained any', () => {
    const json = '{"id":"p","last_name":"\udc96"}'
    expect(envelopeOf('patients', json, { invalidUtf8: true }).content!.payload.last_name).toBe('\\x96')
    expect(envelopeOf('patients', json).content!.payload.last_name).toBe('\\udc96')
  })
})

describe('an entry of a log', () => {
  const delivery = (fields: string) => envelopeOf('webhook_deliveries', `{"id":"e"${fields}}`)

  test('has its own time as version, whenever it was read, and attempts at one time are in order', () => {
    const at = '"created_at":"2025-01-01T00:00:00Z"'
    expect(delivery(`,${at}`)).toMatchObject({ version: '2025-01-01T00:00:00.000000Z', updatedAt: null })
    expect(delivery(`,${at},"attempts":2`).version).toBe('2025-01-01T00:00:00.000002Z')
    expect(delivery(`,${at},"attempts":-5`).version).toBe('2025-01-01T00:00:00.000000Z')
    expect(delivery(`,${at},"attempts":5000`).version).toBe('2025-01-01T00:00:00.000999Z')
  })

  test('without a time is ordered by its attempts, and without both by the time of reading', () => {
    expect(delivery(',"attempts":2').version).toBe('1970-01-01T00:00:00.000002Z')
    expect(delivery(',"attempts":0').version).toBe(at(0))
    expect(delivery(',"created_at":7,"updated_at":"2027-01-01T00:00:00Z"')).toMatchObject({
      version: at(0),
      updatedAt: null,
      content: { problems: [] },
    })
  })
})

describe('a dead letter', () => {
  test.each<[string, unknown, string, string | null]>([
    ['a text', 'p', 'not an object', null],
    ['a list', [{ id: 'p' }], 'not an object', null],
    ['a null', null, 'not an object', null],
    ['a record without an id', { last_name: 'Ann' }, 'has no id', null],
    [
      'a number that JSON cannot carry',
      parseText('{"id":9007199254740993}'),
      'has an id that JSON numbers cannot carry exactly',
      null,
    ],
    ['an id that is a list', { id: ['p'] }, 'has an id that cannot be a key', null],
    [
      'a record that is nested too deeply',
      { id: 'p', a: nested(402) },
      'nested more than 400 levels deep',
      'p',
    ],
  ])('says what is wrong with %s, and has all of it', (_, input, reason, recordId) => {
    const deadLetter = deadLetterOf(input)
    expect(deadLetter).toMatchObject({ reason, recordId, origin: 'run:1 page:2' })
    expect(parseText(String(deadLetter.body))).toEqual(input)
  })

  test('is also made of an undefined value, and of one that is nested too deeply to be written', () => {
    expect(deadLetterOf(undefined)).toMatchObject({ reason: 'not an object', body: 'null' })
    expect(deadLetterOf({ id: 'p', a: nested(20_000) })).toMatchObject({
      recordId: 'p',
      body: '(nested too deeply to be written)',
    })
  })

  test('has no value that its stream stores in no table', () => {
    expect(deadLetterOf({ signature_secret: 'x' }, 'webhook_configs').body).toBe('{}')
    const deep = { id: 'w', signature_secret: 'x', sources: nested(402) }
    const { recordId, reason, body } = deadLetterOf(deep, 'webhook_configs')
    expect([recordId, reason]).toEqual(['w', 'nested more than 400 levels deep'])
    expect(JSON.parse(body as string)).toEqual({ id: 'w', sources: nested(402) })
  })
})

test('a tombstone is of the time at which the record was seen to be gone', () => {
  const { invalidUtf8, ...where } = reading('patients')
  expect(tombstone('p', { ...where, stream: 'patients' })).toEqual({
    teamId: 3,
    stream: 'patients',
    id: 'p',
    version: at(0),
    observedAt: at(0),
    updatedAt: at(0),
    origin: 'run:1 page:2',
    content: null,
  })
})
