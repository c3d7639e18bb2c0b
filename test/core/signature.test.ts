/** Signatures are those of RFC 4231, and nothing else is accepted as one. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSigned, SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'

const VECTORS: readonly (readonly [string, string, Buffer, string])[] = [
  [
    '1',
    '\x0b'.repeat(20),
    Buffer.from('Hi There'),
    'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
  ],
  [
    '2',
    'Jefe',
    Buffer.from('what do ya want for nothing?'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  [
    '4',
    String.fromCharCode(...Array.from({ length: 25 }, (_, at) => at + 1)),
    Buffer.alloc(50, 0xcd),
    '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
  ],
]

test.each(VECTORS)('test case %s of RFC 4231', (_, secret, body, expected) => {
  expect(sign(body, secret)).toBe(expected)
  expect(isSigned(body, expected, [secret])).toBe(true)
})

describe('a signature', () => {
  const body = Buffer.from('{"a":1}')
  // As computed by another tool: `echo -n '{"a":1}' | openssl dgst -sha256 -hmac secret`.
  const good = 'aa9e2e3575f5d7098b6caccd790888c36d5fdb63342a73bada2d6a51747a8494'

  test('is valid in either case', () => {
    expect(isSigned(body, good.toUpperCase(), ['secret'])).toBe(true)
    expect(isSigned(body, good.slice(0, 32).toUpperCase() + good.slice(32), ['secret'])).toBe(true)
  })

  test('is valid with any of the secrets', () => {
    expect(isSigned(body, good, ['old', 'secret', 'new'])).toBe(true)
    expect(isSigned(body, good, ['old', 'new'])).toBe(false)
    expect(isSigned(body, good, [])).toBe(false)
  })

  test.each<[string, string]>([
    ['empty', ''],
    ['too short', good.slice(1)],
    ['too long', `${good}0`],
    ['twice as long', good + good],
    ['with a prefix', `sha256=${good}`],
    ['with a blank', `${good.slice(0, 63)} `],
    ['with a line end', `${good}\n`],
    ['not hex', `${good.slice(0, 63)}g`],
    ['base64', Buffer.from(good, 'hex').toString('base64')],
    ['of zeros', '0'.repeat(64)],
  ])('is rejected when it is %s', (_, signature) => {
    expect(isSigned(body, signature, ['secret'])).toBe(false)
  })

  test('is valid for secrets of any length and characters, one after another', () => {
    const secrets = fc.array(
      fc.oneof(
        fc.string({ unit: 'binary', minLength: 60, maxLength: 200 }),
        fc.string({ unit: 'grapheme', maxLength: 80 }),
        fc.constantFrom('', 'k'.repeat(64), 'k'.repeat(65), '\ud800'),
      ),
      { minLength: 1, maxLength: 4 },
    )
    fc.assert(
      fc.property(secrets, fc.uint8Array({ maxLength: 300 }), fc.nat(), (known, bytes, at) => {
        const signature = sign(bytes, known[at % known.length]!)
        expect(isSigned(bytes, signature, known)).toBe(true)
        expect(isSigned(bytes, signature, [`${known[at % known.length]}x`])).toBe(false)
      }),
    )
  })

  test('covers the exact bytes', () => {
    expect(isSigned(Buffer.from('{"a": 1}'), good, ['secret'])).toBe(false)
    fc.assert(
      fc.property(fc.uint8Array(), fc.string(), fc.nat(), (bytes, secret, at) => {
        const signature = sign(bytes, secret)
        expect(isSigned(bytes, signature, [secret])).toBe(true)
        if (bytes.length === 0) return
        const other = Uint8Array.from(bytes)
        other[at % bytes.length]! ^= 1
        expect(isSigned(other, signature, [secret])).toBe(false)
      }),
    )
  })
})

test('the header has the name of the specification, in lower case as in Node', () => {
  expect(SIGNATURE_HEADER).toBe('x-service-signature')
})
