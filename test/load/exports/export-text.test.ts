/** The text of an exported file, in whatever pieces it arrives. */
import { expect, test } from 'vitest'
import { FIRST_PIECE, openExportText } from '../../../src/load/exports/export-text.ts'

const CSV = 'Client ID,Name\r\n1,"Zo\u00eb, \u{1f600}"\n2,\n'
const RECORDS = [
  ['Client ID', 'Name'],
  ['1', 'Zo\u00eb, \u{1f600}'],
  ['2', ''],
]

test.each([
  ['as it is', false, CSV],
  ['with a mark of its encoding', false, `\ufeff${CSV}`],
  ['as a JSON string', true, JSON.stringify(CSV)],
  ['as a JSON string with the mark before it', true, `\ufeff${JSON.stringify(CSV)}`],
  ['as a JSON string with the mark in it', true, JSON.stringify(`\ufeff${CSV}`)],
])(
  'a file sent %s has the same records, wherever it is cut after its first bytes',
  (_, isJsonString, sent) => {
    const bytes = Buffer.from(sent)
    for (const size of [1, 2, 3, bytes.length]) {
      const records: string[][] = []
      const text = openExportText({ isJsonString }, (cells) =>
        records.push(cells.map((cell) => Buffer.from(cell, 'latin1').toString('utf8'))),
      )
      text.write(bytes.subarray(0, FIRST_PIECE))
      for (let at = FIRST_PIECE; at < bytes.length; at += size) text.write(bytes.subarray(at, at + size))
      text.end()
      expect(records).toEqual(RECORDS)
    }
  },
)
