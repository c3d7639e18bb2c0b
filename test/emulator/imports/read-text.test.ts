/** A file of any encoding is read without a loss: UTF-8, or else Windows-1252. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CsvError } from 'csv-parse'
import { parse } from 'csv-parse/sync'
import { afterAll, expect, it } from 'vitest'
import { readText, reasonOf } from '../../../src/emulator/imports/read-text.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const base = makeFolder('text-')
afterAll(() => removeFolder(base))

function readBytes(bytes: Uint8Array): string {
  const file = join(base, 'x')
  writeFileSync(file, bytes)
  return readText(file)
}

it('each byte of a file that is not UTF-8 is a character of Windows-1252', () => {
  const text = readBytes(Uint8Array.from({ length: 256 }, (_, byte) => byte))
  const high = [
    ...'\u20ac\u0081\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u008d\u017d\u008f',
  ]
  high.push(
    ...'\u0090\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u009d\u017e\u0178',
  )
  const expected = Array.from({ length: 256 }, (_, byte) => high[byte - 0x80] ?? String.fromCharCode(byte))
  expect([...text]).toEqual(expected)
})

it('UTF-8 is read as such, less one byte order mark at its beginning', () => {
  expect(readBytes(Buffer.from('Zoë \ufeff 王 🙂'))).toBe('Zoë \ufeff 王 🙂')
  expect(readBytes(Buffer.from('\ufeff\ufeffZoë'))).toBe('\ufeffZoë')
  expect(readBytes(Buffer.alloc(0))).toBe('')
})

it('a reason contains the code and the line of a fault, and none of the text', () => {
  const thrownBy = (action: () => unknown) => {
    try {
      action()
    } catch (error) {
      return error
    }
    return undefined
  }
  const csv = thrownBy(() => parse('a,b\n"Canary'))
  expect(csv).toBeInstanceOf(CsvError)
  expect(reasonOf(csv)).toBe('is not valid CSV (CSV_QUOTE_NOT_CLOSED, line 2)')
  expect(reasonOf(thrownBy(() => JSON.parse('{"Canary')))).toBe('is not valid JSON')
  expect(reasonOf(new Error('is empty\nCanary'))).toBe('is empty')
  expect(reasonOf('is a text')).toBe('is a text')
})
