/** Cuts from a response the signed part of addresses and the bytes of images, and nothing that people wrote. */
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../../src/core/json.ts'
import { readRecord } from '../../../src/normalize/read-record.ts'
import { cleansedResponse } from '../../../src/streams/parts/response-cleansing.ts'
import { responses } from '../../../src/streams/responses.ts'
import { at } from '../../support/envelopes.ts'
import { IMAGE_BYTES, signedBy } from '../signed.ts'

const read = (value: unknown) =>
  readRecord(value, { teamId: 1, stream: responses, origin: 'test', observedAt: at(0), invalidUtf8: false })

function contentOf(value: unknown) {
  const record = read(value)
  if (record.kind === 'dead') throw new Error(record.deadLetter.reason)
  return record.envelope.content!
}

describe('a response', () => {
  test('whose addresses are signed again at each read is the same content, hash for hash', () => {
    const [first, second] = [contentOf(signedBy('k1')), contentOf(signedBy('k2'))]
    expect(first.text).toBe(second.text)
    expect(first.hash).toBe(second.hash)
  })

  test('is the same content whichever bytes its signature image has, and another when anything else differs', () => {
    const response = (image: string, signer_name: string) => ({
      id: 'r',
      e_signatures: [{ image, signer_name }],
    })
    const { hash } = contentOf(response(`data:image/png;base64,${IMAGE_BYTES}`, 'Ann'))
    expect(contentOf(response('data:image/png;base64,AAAA', 'Ann')).hash).toBe(hash)
    expect(contentOf(response(`data:image/png;base64,${IMAGE_BYTES}`, 'Bob')).hash).not.toBe(hash)
    expect(contentOf(response('', 'Ann')).hash).not.toBe(hash)
  })

  test('keeps text of people, even an address with a query, or words about images', () => {
    const words = [
      'https://example.com/?q=1&page=2#top',
      'see https://example.com/?signature=abc for more',
      'data:image is what I mean',
      'data:text/plain,hello',
      '//',
      'http',
    ]
    const response = {
      id: 'r',
      form_name: words[0],
      answers: words.map((answer_text) => ({ answer_text, answer_choices: words })),
      matrix_cells: words.map((value) => ({ row: value, value })),
    }
    expect(cleansedResponse(response)).toBe(response)
  })

  test.each([
    'https://a.example.com/x',
    'HTTPS://a.example.com/x',
    'http://a/x',
    'Http://a/x',
    '//a',
    ' https://a.example.com/x',
    '\t//a.example.com/x',
    '\u00a0https://a.example.com/x',
  ])('has no signature of an address that is a text of its own, however it begins: %j', (address) => {
    const signed = { id: 'r', answers: [{ answer_text: `${address}?sig=abc` }] }
    expect(cleansedResponse(signed)).toEqual({ id: 'r', answers: [{ answer_text: address }] })
  })

  test.each(['data:image/png;base64,AAAA', 'DATA:IMAGE/PNG,AAAA', ' Data:image/gif,AAAA'])(
    'has no bytes of an image that is a text of its own, however it begins: %j',
    (image) => {
      const drawn = { id: 'r', answers: { q: image } }
      expect(cleansedResponse(drawn)).toEqual({ id: 'r', answers: { q: '(not kept)' } })
    },
  )

  test.each([
    ['A'.repeat(200), '(not kept)'],
    [`${'aZ09+/_- \n'.repeat(20)}`, '(not kept)'],
    [`${'A'.repeat(200)}=`, '(not kept)'],
    [`${'A'.repeat(200)}== \n`, '(not kept)'],
    ['A'.repeat(199), 'A'.repeat(199)],
    [`${'A'.repeat(199)}=`, `${'A'.repeat(199)}=`],
    [`${'A'.repeat(300)}===`, `${'A'.repeat(300)}===`],
    [`${'A'.repeat(300)}.`, `${'A'.repeat(300)}.`],
    [`.${'A'.repeat(300)}`, `.${'A'.repeat(300)}`],
    [`${'A'.repeat(300)}=A`, `${'A'.repeat(300)}=A`],
    ['', ''],
    ['(not kept)', '(not kept)'],
  ])('has no encoded bytes in a file, under whatever name they are (%j)', (text, kept) => {
    expect(cleansedResponse({ id: 'r', uploads: [{ note: text }] })).toEqual({
      id: 'r',
      uploads: [{ note: kept }],
    })
  })

  test('of a hostile sender, with blanks that look like the start of encoded bytes, is read in one pass', () => {
    const text = `${' '.repeat(1_000_000)}!`
    expect(cleansedResponse({ id: 'r', files: [{ note: text }] })).toEqual({
      id: 'r',
      files: [{ note: text }],
    })
  })

  test('loses what no table may contain at every depth that can load, and keeps the rest', () => {
    const nested = (inner: unknown) => {
      let value = inner
      for (let level = 0; level < 395; level++) value = level % 2 === 0 ? { a: value, k: 7 } : [null, value]
      return value
    }
    const files = { files: [{ url: 'https://a/x?y', n: 1.5, z: null }, null, true] }
    const kept = { files: [{ url: 'https://a/x', n: 1.5, z: null }, null, true] }
    expect(cleansedResponse(nested(files))).toEqual(nested(kept))
  })

  test('keeps the other fields of a file without its address and bytes', () => {
    const file = {
      id: 'x',
      name: 'what?.png',
      content_type: 'image/png',
      size: 5,
      question: { text: 'A card?#1' },
    }
    const kept = cleansedResponse({
      id: 'r',
      files: [{ ...file, url: 'https://a.example.com/x?y', data: IMAGE_BYTES }],
    })
    expect(kept).toEqual({
      id: 'r',
      files: [{ ...file, url: 'https://a.example.com/x', data: '(not kept)' }],
    })
  })

  test('is not changed by cleansing, and cleansing it again changes nothing', () => {
    const response = signedBy('k')
    const before = structuredClone(response)
    const once = cleansedResponse(response)
    expect(response).toEqual(before)
    expect(cleansedResponse(once)).toBe(once)
  })

  test.each([
    ['[', ']'],
    ['{"files":', '}'],
  ])('nested beyond every depth does not fail: %s', (open, close) => {
    const levels = 5000
    const deep = JSON.parse(`${open.repeat(levels)}null${close.repeat(levels)}`)
    expect(read({ id: 'r', files: deep })).toMatchObject({ kind: 'dead' })
  })

  test('nested so deeply that it is refused keeps no signature in its dead letter, at any depth', () => {
    const nested = (levels: number) =>
      JSON.parse(
        `${'{"files":['.repeat(levels)}{"url":"https://a.example.com/x?key=${levels}"}${']}'.repeat(levels)}`,
      )
    const bodyOf = (levels: number) => {
      const record = read({ id: 'r', n: 7, ...nested(levels) })
      return record.kind === 'dead' ? `${record.deadLetter.body}` : 'loaded'
    }
    expect(bodyOf(240)).toContain('{"url":"https://a.example.com/x"}')
    expect(bodyOf(260)).toMatch(/^\{"id":"r","n":7,.*"\(nested too deeply to be written\)"/)
    expect(bodyOf(260)).not.toContain('example.com')
  })

  test('with a field that has a meaning in JavaScript keeps it', () => {
    const response = JSON.parse(
      '{"id":"r","files":[{"__proto__":{"url":"https://a.example.com/x?y"}}]}',
    ) as JsonObject
    expect(JSON.stringify(cleansedResponse(response))).toBe(
      '{"id":"r","files":[{"__proto__":{"url":"https://a.example.com/x"}}]}',
    )
  })
})
