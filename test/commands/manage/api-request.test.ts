/** Arguments of `api`: a mistake is named and its value never quoted. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { expandPath } from '../../../src/api/paths.ts'
import { dataOf, methodOf, queryPair, targetOf } from '../../../src/commands/manage/api.ts'
import { UsageError } from '../../../src/core/errors.ts'

const CANARY = 'canary-of-a-person'
const folder = mkdtempSync(join(tmpdir(), 'intake-sync-api-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const refusalOf = (read: () => unknown): string => {
  try {
    read()
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    return `${(error as UsageError).message} ${(error as UsageError).hint}`
  }
  throw new Error('it was accepted')
}

describe('a path', () => {
  it.each([
    '',
    `v2/${CANARY}`,
    `https://elsewhere.invalid/v2/${CANARY}`,
    `//elsewhere.invalid/${CANARY}`,
    `/v2/../${CANARY}`,
    `/v2/./${CANARY}`,
    `/v2/${CANARY}/..`,
    `/v2/%2E%2e/${CANARY}?x=1`,
    `/v2/x%2f..%2f${CANARY}`,
    `/v2/x%5C..%5c${CANARY}`,
    `/v2\\..\\${CANARY}`,
    `/v2/patients#${CANARY}`,
    `/v2/patients/{${CANARY}}`,
  ])('%j is rejected and not quoted', (given) => {
    const said = refusalOf(() => targetOf(given, []))
    expect(said).toMatch(/^PATH must/)
    expect(said).not.toContain(CANARY)
  })

  it.each([
    ['/v2/forms', '/v2/forms', ''],
    ['/v2/forms?', '/v2/forms', ''],
    ['/v2/a..b/.c/d.', '/v2/a..b/.c/d.', ''],
    ['/v2/x?next=/../y&z={id}', '/v2/x', 'next=/../y&z={id}'],
    ['/v2/é%20?q=é', '/v2/%C3%A9%20', 'q=%C3%A9'],
    ['/v2/é/x/ñ', '/v2/%C3%A9/x/%C3%B1', ''],
    ['/v2/a//b', '/v2/a//b', ''],
  ])('%j requests %j with the query %j', (given, path, query) => {
    expect(targetOf(given, [])).toEqual({ path, query })
  })

  it('that is accepted can be requested by the client, whatever was given', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        let path: string
        try {
          path = targetOf(`/${text}`, []).path
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError)
          return
        }
        expect(expandPath(path)).toBe(path)
        expect(new URL(path, 'http://service.invalid').host).toBe('service.invalid')
      }),
    )
  })
})

describe('-q', () => {
  it.each([CANARY, `=${CANARY}`, ''])('%j is rejected and not quoted', (given) => {
    expect(refusalOf(() => queryPair(given))).not.toContain(CANARY)
  })

  it('arrives as it was given, whatever it contains', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string({ unit: 'grapheme' }), (name, value) => {
        fc.pre(!name.includes('='))
        const { query } = targetOf('/v2/x?first=1', queryPair(`${name}=${value}`))
        expect([...new URLSearchParams(query)]).toEqual([
          ['first', '1'],
          [name, value],
        ])
      }),
    )
  })
})

describe('-d', () => {
  const nothing = () => Readable.from([])
  const { signal } = new AbortController()
  const files = {
    broken: `{"name": "${CANARY}"`,
    latin: Buffer.from(`{"name": "${CANARY} \xe9"}`, 'latin1'),
    empty: '',
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content)

  it.each([CANARY, '', '{', `@${folder}/broken`, `@${folder}/latin`, `@${folder}/empty`, '@-'])(
    '%j is rejected as invalid JSON, and not quoted',
    async (given) => {
      const error = await dataOf(given, nothing, signal).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(UsageError)
      expect((error as UsageError).message).toBe('-d is not JSON')
      expect((error as UsageError).stack).not.toContain(CANARY)
    },
  )

  it.each([
    [`@${folder}/${CANARY}`, 'ENOENT'],
    [`@${folder}`, 'EISDIR'],
    ['@', 'ENOENT'],
  ])('%j is rejected with %s', async (given, code) => {
    const error = await dataOf(given, nothing, signal).catch((thrown: unknown) => thrown)
    expect((error as UsageError).message).toBe(`-d names a file that cannot be read (${code})`)
  })

  it.each(['"a@b"', ' [1, "é"]', '{"a@": "@b"}'])('%j is sent as it was given', async (given) => {
    expect(await dataOf(given, nothing, signal)).toEqual(Buffer.from(given))
  })

  it('that waits for standard input is ended by a signal', async () => {
    const stop = new AbortController()
    const waiting = dataOf('@-', () => new Readable({ read: () => {} }), stop.signal)
    stop.abort('SIGINT')
    await expect(waiting).rejects.toBe('SIGINT')
  })
})

it.each([
  [Object.assign(new Error(CANARY), { code: 'EIO' }), 'EIO'],
  [new Error(CANARY), 'unknown'],
])('standard input that fails is refused with its code, and not quoted', async (failure, code) => {
  const input = Readable.from(
    (async function* () {
      yield '{'
      throw failure
    })(),
  )
  const error = await dataOf('@-', () => input, new AbortController().signal).catch(
    (thrown: unknown) => thrown,
  )
  expect(error).toMatchObject({
    ...{ message: `standard input cannot be read (${code})`, hint: 'give -d a file or JSON' },
    ...{ code: 'file_unreadable', variable: '-d' },
  })
})

it('the body is sent without the byte order mark at its start, wherever it comes from', async () => {
  const { signal } = new AbortController()
  const body = '["\ufeff"]'
  writeFileSync(join(folder, 'marked'), `\ufeff${body}`)
  const pieces = () => Readable.from([Buffer.from('\ufeff['), Buffer.from('"\ufeff'), Buffer.from('"]')])
  for (const given of [`\ufeff${body}`, body, `@${folder}/marked`, '@-'])
    expect(String(await dataOf(given, pieces, signal))).toBe(body)
  expect(await dataOf(undefined, pieces, signal)).toBeUndefined()
})

it.each(['', 'CONNECT', 'G\r\nET', CANARY])('the method %j is rejected and not quoted', (given) => {
  expect(refusalOf(() => methodOf(given))).not.toContain(CANARY)
})
