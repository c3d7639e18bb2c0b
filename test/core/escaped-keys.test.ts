/** A key with an escape is the key that it spells, on every Node: also where this one would not need the detour. */
import fc from 'fast-check'
import { LosslessNumber } from 'lossless-json'
import { expect, test } from 'vitest'
import { withKeys, withoutEscapedKeys } from '../../src/core/escaped-keys.ts'

const MARK = '~'

/** The value, and how many of its keys take the detour. */
function reading(text: string): { value: unknown; detours: number } {
  const keys: string[] = []
  return {
    value: withKeys(JSON.parse(withoutEscapedKeys(text, MARK, keys)), MARK, keys),
    detours: keys.length,
  }
}

const read = (text: string) => reading(text).value

test.each([
  ['{"\\u0061":1}', '{"a":1}', 1],
  ['{"\\u0061" \n\t\r:1}', '{"a":1}', 1],
  ['{"a\\"b":1,"c":"\\\\","d\\\\":2}', '{"a\\"b":1,"c":"\\\\","d\\\\":2}', 2],
  ['{"\\\\":1,"\\"":2,"\\\\\\"":3}', '{"\\\\":1,"\\"":2,"\\\\\\"":3}', 3],
  [
    '{"v":"x\\n","k":1,"\\u0062":[{"\\u0063":"\\u0064"},"\\u0065"]}',
    '{"v":"x\\n","k":1,"b":[{"c":"d"},"e"]}',
    2,
  ],
  ['[{"\\u0061":1},{"a":{"\\u0061":2}},{"b":3}]', '[{"a":1},{"a":{"a":2}},{"b":3}]', 3],
  // The last of equal keys counts, in the place of the first.
  ['{"i\\u0064":2,"x":1,"id":3}', '{"id":3,"x":1}', 2],
  ['{"id":3,"x":"id","i\\u0064":2}', '{"id":2,"x":"id"}', 2],
  ['{"a":1,"\\u0062":2,"a":3,"\\u0061":4,"b":5}', '{"a":4,"b":5}', 5],
  ['{"\\u0061":null,"n":true}', '{"a":null,"n":true}', 1],
])('%s says %s', (text, said, detours) => {
  const { value, detours: taken } = reading(text)
  expect([JSON.stringify(value), taken]).toEqual([said, detours])
})

test('more than ten keys with an escape stay apart', () => {
  const names = [...'abcdefghijklmn']
  const text = `{${names.map((name, at) => `"\\u00${name.charCodeAt(0).toString(16)}":${at}`).join()}}`
  expect(read(text)).toEqual(Object.fromEntries(names.map((name, at) => [name, at])))
})

test('a text without an escape in a key is not changed', () => {
  for (const text of ['{"a":"\\u0061","b":["\\\\",{"c":"\\":"}]}', '{"a":1}', '"\\u0061"', '7']) {
    const keys: string[] = []
    expect(withoutEscapedKeys(text, MARK, keys)).toBe(text)
    expect(keys).toEqual([])
  }
})

test('a key that has a meaning in JavaScript is a key, and a number keeps its digits', () => {
  const value = read('{"\\u005f_proto__":{"admin":true}}') as { admin?: boolean }
  expect(Object.keys(value)).toEqual(['__proto__'])
  expect(value.admin).toBeUndefined()
  const number = new LosslessNumber('1.50')
  expect(withKeys({ '~0': number }, MARK, ['a'])).toEqual({ a: number })
  expect((withKeys({ '~0': number }, MARK, ['a']) as { a: unknown }).a).toBe(number)
})

test.each(['{"\\q":1}', '{"\\u00e":1}', '{"\\', '{"\\"', '{"a\\":1}', '\\ {"\\u0061":1}', '{"\\u0061":1'])(
  'what is no JSON is refused: %s',
  (text) => {
    expect(() => read(text)).toThrow(SyntaxError)
  },
)

test('whatever the keys are, and wherever they are, they are read as written', () => {
  const unit = fc.constantFrom('a', 'b', 'é', '"', '\\', '\t', '漢', '\udc96', ':', ' ', '1')
  const key = fc.array(unit, { maxLength: 3 }).map((units) => units.join(''))
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      key,
      fc.nat(),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(key, tie('value'), { maxKeys: 3 }),
    ),
  }))
  const spelled = (text: string) =>
    `"${[...text].map((each) => (each === 'a' ? each : `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)).join('')}"`
  const namesIn = (made: unknown): string[] => {
    if (typeof made !== 'object' || made === null) return []
    return [...(Array.isArray(made) ? [] : Object.keys(made)), ...Object.values(made).flatMap(namesIn)]
  }
  const written = (made: unknown): string => {
    if (Array.isArray(made)) return `[${made.map(written).join(', ')}]`
    if (typeof made !== 'object' || made === null) return JSON.stringify(made)
    return `{${Object.entries(made).map(([name, item]) => `${spelled(name)} : ${written(item)}`)}}`
  }
  fc.assert(
    fc.property(value, (made) => {
      const { value: found, detours } = reading(written(made))
      expect(JSON.stringify(found)).toBe(JSON.stringify(made))
      expect(detours).toBe(namesIn(made).filter((name) => /[^a]/.test(name)).length)
    }),
  )
})
