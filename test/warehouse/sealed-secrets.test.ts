/** An encrypted secret can be decrypted with its key and in its place, and nowhere else. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { UsageError } from '../../src/core/errors.ts'
import { keyOf, open, seal } from '../../src/warehouse/webhook-secrets.ts'

const CANARY = 'whsec_canary-7f3a'
const key = randomBytes(32)
const place = ['webhook_secret', 1, 'c-1']

/** The error of decryption; fails when it succeeds. */
function refusal(box: Uint8Array, under = key, at: readonly (string | number)[] = place): Error {
  try {
    open(box, under, at)
  } catch (error) {
    return error as Error
  }
  throw new Error('it opened')
}

test('an encrypted secret is decrypted unchanged, whatever it is', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.array(fc.oneof(fc.string(), fc.integer())),
      (secret, at) => {
        expect(open(seal(secret, key, at), key, at)).toBe(secret)
      },
    ),
  )
})

test('the same secret is encrypted differently each time, and no box shows it', () => {
  const boxes = Array.from({ length: 50 }, () => seal(CANARY, key, place))
  expect(new Set(boxes.map((box) => box.toString('hex'))).size).toBe(50)
  expect(new Set(boxes.map((box) => box.subarray(1, 13).toString('hex'))).size).toBe(50)
  for (const box of boxes) expect(box.includes(CANARY)).toBe(false)
})

describe('a box is rejected', () => {
  test('when it is opened with another key', () => {
    expect(refusal(seal(CANARY, key, place), randomBytes(32))).toMatchObject({ code: 'secret_unreadable' })
  })

  test.each([
    ['of another team', ['webhook_secret', 2, 'c-1']],
    ['of another configuration', ['webhook_secret', 1, 'c-2']],
    ['whose words are cut elsewhere', ['webhook_secret', '1,c-1']],
    ['for something else', ['session', 1, 'c-1']],
  ])('when its place is %s', (_, at) => {
    expect(refusal(seal(CANARY, key, place), key, at)).toMatchObject({ code: 'secret_unreadable' })
  })

  test('when any bit of it was changed', () => {
    const box = seal(CANARY, key, place)
    for (let bit = 0; bit < box.length * 8; bit++) {
      const changed = Buffer.from(box)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(refusal(changed)).toMatchObject({ code: 'secret_unreadable', verdict: 'stop' })
    }
  })

  test('cut short at any byte, or with one more', () => {
    const box = seal(CANARY, key, place)
    for (let length = 0; length < box.length; length++) refusal(box.subarray(0, length))
    refusal(Buffer.concat([box, Buffer.from([0])]))
  })
})

test('no error shows the secret, the key or the box, not even in its cause', () => {
  const box = seal(CANARY, key, place)
  const error = refusal(box, randomBytes(32))
  const shown = `${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`
  for (const hidden of [CANARY, key.toString('base64'), key.toString('hex'), box.toString('hex')]) {
    expect(shown).not.toContain(hidden)
  }
  expect(error.cause).toBeUndefined()
})

test('a key is read from either alphabet of base64, with or without padding', () => {
  const bytes = Buffer.alloc(32, 0xfb)
  for (const text of [
    bytes.toString('base64'),
    bytes.toString('base64url'),
    bytes.toString('base64').replace('=', ''),
  ]) {
    expect(keyOf(text)).toEqual(bytes)
  }
})

test('a key of another length is wrong configuration, and is not shown', () => {
  const text = Buffer.from('canary-key').toString('base64')
  const reading = () => keyOf(text)
  expect(reading).toThrow(UsageError)
  expect(reading).toThrow(/^INTAKE_ENCRYPTION_KEY is not 32 bytes in base64$/)
})

test('a message says what to do, and no more', () => {
  expect(refusal(Buffer.alloc(0))).toMatchObject({
    code: 'secret_unreadable',
    verdict: 'stop',
    message: 'a stored secret cannot be opened',
    hint: 'Set INTAKE_ENCRYPTION_KEY to the key it was stored under; if that is lost, create the webhook anew.',
  })
  expect(() => keyOf('c2hvcnQ=')).toThrow(
    expect.objectContaining({
      message: 'INTAKE_ENCRYPTION_KEY is not 32 bytes in base64',
      hint: 'set INTAKE_ENCRYPTION_KEY to 32 bytes in base64',
      variable: 'INTAKE_ENCRYPTION_KEY',
    }),
  )
})

test('a box is its version, a nonce of 12 bytes, a tag of 16, and the secret in UTF-8', () => {
  const box = seal('é', key, place)
  expect(box.length).toBe(1 + 12 + 16 + 2)
  expect(box[0]).toBe(1)
  for (let length = 0; length < 29; length++) {
    expect(refusal(box.subarray(0, length))).toMatchObject({ code: 'secret_unreadable' })
  }
})
