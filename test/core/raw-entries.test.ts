/** Entries cut out of a list are what a parser finds there. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseJson } from '../../src/core/json.ts'
import { parseEntries, RawEntry } from '../../src/core/raw-entries.ts'

const bytesOf = (text: string) => Buffer.from(text)

/** With its entries parsed. */
function whole(body: Uint8Array): unknown {
  const { value } = parseEntries(body)
  const parsed = (item: unknown) => (item instanceof RawEntry ? item.parse() : item)
  if (Array.isArray(value)) return value.map(parsed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, Array.isArray(item) ? item.map(parsed) : item]),
  )
}

const rawOf = (text: string) => {
  const { value } = parseEntries(bytesOf(text))
  const lists = Array.isArray(value) ? [value] : Object.values(value as object).filter(Array.isArray)
  return lists.flat().map((item: unknown) => (item instanceof RawEntry ? item.bytes.toString() : 'parsed'))
}

test.each([
  ['[{"id":1},{"id":2}]', ['{"id":1}', '{"id":2}']],
  ['{"count":2,"results":[ {"id":"]"} ,\n{"a":[{"b":{}}]}]}', ['{"id":"]"}', '{"a":[{"b":{}}]}']],
  ['{"results":[{"id":"\\"}{"},{"id":"\\\\"}],"next":null}', ['{"id":"\\"}{"}', '{"id":"\\\\"}']],
  ['{"data":[1,"x",[{"id":1}],null,{"id":2}]}', ['parsed', 'parsed', 'parsed', 'parsed', '{"id":2}']],
  [' {"id":1}', []],
  ['\n{"a":{"id":1},"b":[7]}', ['parsed']],
  ['{"a":[{"id":1}],"b":{"c":[{"id":2}]},"d":[{"id":3}]}', ['{"id":1}', '{"id":3}']],
])('%s has these entries', (text, entries) => {
  expect(rawOf(text)).toEqual(entries)
  expect(whole(bytesOf(text))).toEqual(parseJson(bytesOf(text)).value)
})

test('whatever a body is, its entries and the rest are what the parser reads', () => {
  const value = fc.jsonValue({ maxDepth: 5 })
  const list = fc.oneof(fc.array(value), fc.array(fc.dictionary(fc.string(), value)))
  const body = fc.oneof(value, list, fc.dictionary(fc.string(), fc.oneof(value, list)))
  fc.assert(
    fc.property(body, fc.constantFrom(0, 2), (made, indent) => {
      const bytes = bytesOf(JSON.stringify(made, null, indent))
      expect(whole(bytes)).toEqual(parseJson(bytes).value)
    }),
    { seed: 1, numRuns: 300 },
  )
})

test('a body is refused where the parser refuses it, as a whole or in one of its entries', () => {
  const text = '{"count":2,"next":"x","results":[{"id":"a\\"","tags":[{"n":1.50}]},{"id":null}],"more":[[]]}'
  const isJson = (bytes: Uint8Array, parse: (bytes: Uint8Array) => unknown) => {
    try {
      return JSON.stringify(parse(bytes))
    } catch (error) {
      expect(error).toBeInstanceOf(SyntaxError)
      return 'refused'
    }
  }
  const broken = [...'{}[],:"\\0 '].flatMap((unit) =>
    Array.from(text, (_, at) => [
      text.slice(0, at) + text.slice(at + 1),
      text.slice(0, at) + unit + text.slice(at),
    ]),
  )
  for (const each of broken.flat())
    expect([each, isJson(bytesOf(each), whole)]).toEqual([
      each,
      isJson(bytesOf(each), (b) => parseJson(b).value),
    ])
})

describe('numbers, marks of order and bytes', () => {
  test('an exact number stays exact', () => {
    expect(whole(bytesOf('[{"n":1.50},{"n":12345678901234567890}]'))).toEqual(
      parseJson(bytesOf('[{"n":1.50},{"n":12345678901234567890}]')).value,
    )
  })
  test('a body that is UTF-8 is said to be that', () => {
    expect(parseEntries(bytesOf('[{"id":"é"}]')).invalidUtf8).toBe(false)
  })
  test('a mark at the beginning is no part of an entry', () => {
    expect(rawOf('\ufeff[{"id":1}]')).toEqual(['{"id":1}'])
  })
  test('a body that is not UTF-8 is parsed as a whole', () => {
    const body = Buffer.concat([bytesOf('[{"id":"'), Buffer.from([0x96]), bytesOf('"}]')])
    expect(parseEntries(body)).toEqual(parseJson(body))
    expect(parseEntries(body).invalidUtf8).toBe(true)
  })
})
