/** Webhook configurations without their secrets. */
import { expect, test } from 'vitest'
import { webhookConfigs } from '../../src/streams/webhook-configs.ts'

const cleansed = (input: unknown) => webhookConfigs.cleanse!(input)

test('a configuration loses its secrets, wherever they are and whatever their names', () => {
  const secret = 'whsec-canary'
  const config = {
    id: 'w',
    signature_secret: secret,
    signing: { signatureSecret: secret, previous: [{ SECRET: { of: secret } }, 'kept'], n: 7 },
  }
  const without = { id: 'w', signing: { previous: [{}, 'kept'], n: 7 } }
  expect(cleansed(config)).toEqual(without)
  expect(cleansed([config])).toEqual([without])
  expect(cleansed(config)).toEqual(cleansed(without))
})

test('a flag that there is a secret, or a null in its place, reveals nothing and stays', () => {
  const config = { has_secret: true, signature_secret: null, rotating_secret: false }
  expect(cleansed(config)).toEqual(config)
})

test.each(['text', 7, null, undefined, true])('what is no object stays: %j', (value) => {
  expect(cleansed(value)).toBe(value)
})

test('nesting of any depth does not fail, and secrets are removed at every depth that can load', () => {
  const nested = (levels: number, inner: unknown) => {
    let value = inner
    for (let level = 0; level < levels; level++) value = level % 2 === 0 ? { a: value } : [value]
    return value
  }
  expect(cleansed(nested(400, { secret: 'x' }))).toEqual(nested(400, {}))
  expect(() => cleansed(nested(200_000, {}))).not.toThrow()
  // Such a record becomes a dead letter, which has a note in place of what is deeper.
  const deep = JSON.stringify(cleansed(nested(600, { secret: 'whsec-canary', n: 7 })))
  expect(deep).toContain('"(nested too deeply to be written)"')
  expect(deep).not.toContain('whsec-canary')
})
