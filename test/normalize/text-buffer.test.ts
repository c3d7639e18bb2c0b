/** A buffer returns exactly the text that was appended, and leaves alone what it returned. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openTextBuffer } from '../../src/normalize/lines.ts'

const KIB = 1024

test('texts of any length and script come back in order, and its length is in bytes', () => {
  const texts = fc.array(
    fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('é'.repeat(30_000), '日')),
    {
      maxLength: 8,
    },
  )
  fc.assert(
    fc.property(texts, (all) => {
      const buffer = openTextBuffer()
      for (const text of all) buffer.append(text)
      expect(buffer.length).toBe(Buffer.byteLength(all.join('')))
      expect(buffer.take().toString()).toBe(all.join(''))
      expect(buffer.length).toBe(0)
    }),
  )
})

test('text whose every unit takes three bytes fits, however long it is', () => {
  const buffer = openTextBuffer()
  for (const text of ['日'.repeat(64 * KIB), '日'.repeat(200 * KIB)]) {
    buffer.append(text)
    expect(buffer.take().toString() === text).toBe(true)
  }
})

test('of text in latin1 each character is one byte', () => {
  const buffer = openTextBuffer('latin1')
  buffer.append('\u00ff\u0080a')
  expect([...buffer.take()]).toEqual([0xff, 0x80, 0x61])
})

describe('what was returned', () => {
  test('does not change when more is appended', () => {
    const buffer = openTextBuffer()
    buffer.append('first')
    const first = buffer.take()
    buffer.append('second')
    expect([first, buffer.take()].map(String)).toEqual(['first', 'second'])
    expect(first.toString()).toBe('first')
  })

  test('is overwritten after it was given back, and only once', () => {
    const buffer = openTextBuffer()
    const fill = (text: string) => {
      buffer.append(text)
      return buffer.take()
    }
    const first = fill('first')
    buffer.release(first)
    // What a buffer writes into when it was given back is used from the batch after the next one.
    const [second, third, fourth] = [fill('second'), fill('third'), fill('fourth')]
    expect([second, third, fourth].map(String)).toEqual(['second', 'third', 'fourth'])
    expect(third.buffer).toBe(first.buffer)
    expect(new Set([second, third, fourth].map((each) => each.buffer)).size).toBe(3)
  })
})

describe('memory', () => {
  const capacity = (texts: readonly string[], encoding?: 'latin1') => {
    const buffer = openTextBuffer(encoding)
    for (const text of texts) buffer.append(text)
    return buffer.take().buffer.byteLength
  }

  test('starts with 64 KiB, is doubled when it is full, and is never less than a text may take', () => {
    expect(capacity(['a'])).toBe(64 * KIB)
    expect(capacity(['a'.repeat(20 * KIB), 'b'.repeat(20 * KIB)])).toBe(128 * KIB)
    expect(capacity(['a'.repeat(100 * KIB)])).toBe(300 * KIB)
    expect(capacity(['a'.repeat(64 * KIB)], 'latin1')).toBe(64 * KIB)
    expect(capacity(['a'.repeat(64 * KIB + 1)], 'latin1')).toBe(64 * KIB + 1)
  })

  test('for a new batch has the size that the last one took', () => {
    const buffer = openTextBuffer('latin1')
    buffer.append('a'.repeat(100 * KIB))
    buffer.take()
    buffer.append('a')
    expect(buffer.take().buffer.byteLength).toBe(100 * KIB)
    buffer.append('a')
    expect(buffer.take().buffer.byteLength).toBe(64 * KIB)
  })
})
