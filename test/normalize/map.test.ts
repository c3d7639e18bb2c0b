/** What no column and no child of a stream reads is kept and reported, with its type and without its value. */
import { expect, test } from 'vitest'
import { type JsonObject, parseText } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { ALL_STREAMS, streamNamed } from '../../src/streams/catalogue.ts'

const valuesOf = (text: string) => parseText(text) as JsonObject

/** A declaration that has mapped no record yet. */
const newly = (name: string) => ({ ...streamNamed(name)! })

test('every field that a stream does not know is in the extra fields as received, and is drift', () => {
  const unknown = '"a":null,"b":[1],"c":{"d":1.50},"e":1.50,"f":7,"g":true,"h":"x","i":12345678901234567890'
  const { extra, drift, problems } = mapRecord(newly('patients'), valuesOf(`{"id":"p",${unknown}}`), [])
  expect(extra).toBe(`{${unknown}}`)
  expect(drift.map(({ path, type }) => `${path} ${type}`)).toEqual([
    ...['a null', 'b array', 'c object', 'e number', 'f number', 'g boolean', 'h string', 'i number'],
  ])
  expect(problems).toEqual([])
})

test.each(ALL_STREAMS.map(({ name }) => name))('%s: its ids, columns and other fields are known', (name) => {
  const stream = newly(name)
  const known = ['id', 'uid', ...stream.columns.flatMap(({ from }) => from), ...stream.otherFields]
  const record = Object.fromEntries(known.map((field) => [field, null]))
  expect(mapRecord(newly(name), record, [])).toMatchObject({ extra: null, drift: [] })
  const more = mapRecord(newly(name), { ...record, unheard_of: null }, [])
  expect(more).toMatchObject({ extra: '{"unheard_of":null}', drift: [{ path: 'unheard_of', type: 'null' }] })
})

test('a field with a meaning in JavaScript is kept like any other', () => {
  const { extra, drift } = mapRecord(newly('patients'), valuesOf('{"id":"p","__proto__":{"a":1}}'), [])
  expect(extra).toBe('{"__proto__":{"a":1}}')
  expect(drift).toEqual([{ path: '__proto__', type: 'object' }])
})

test('a value of another type is drift if it is no text; problems found before come first and stay', () => {
  const earlier = [
    { path: 'city', reason: 'earlier', original: 'x' },
    { path: 'state', reason: 'earlier', original: [1] },
  ]
  const record = valuesOf('{"id":"p","date_birth":7,"created_at":"soon","patient_tags":{"Ann":1}}')
  const { problems, drift } = mapRecord(newly('patients'), record, earlier)
  expect(problems.map(({ path }) => path)).toEqual([
    'city',
    'state',
    'date_birth',
    'created_at',
    'patient_tags',
  ])
  expect(drift).toEqual([
    { path: 'state', type: 'array' },
    { path: 'date_birth', type: 'number' },
    { path: 'patient_tags', type: 'object' },
  ])
  expect(earlier).toHaveLength(2)
})
