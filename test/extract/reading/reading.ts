/** Reads a CSV file in tests, in pieces, and compares with an independent reader of the same bytes. */
import { CsvError, parse } from 'csv-parse/sync'
import { decodedCell, visibleCell } from '../../../src/load/exports/cell-text.ts'
import { FIRST_PIECE, isSentAsJsonString, openExportText } from '../../../src/load/exports/export-text.ts'
import { MalformedFile } from '../../../src/load/exports/file-problems.ts'

export type Read = readonly (readonly string[])[] | MalformedFile

/** The records of a file as we read them, or why there are none; `sizes` are those of its pieces, in turn. */
export function readBytes(
  bytes: Buffer,
  contentType = 'text/csv',
  sizes: readonly number[] = [65_536],
): Read {
  const records: string[][] = []
  const isJsonString = isSentAsJsonString(contentType, bytes)
  const text = openExportText({ isJsonString }, (cells) => {
    const decode = (cell: string) =>
      text.allStorable ? decodedCell(cell) : visibleCell(cell, isJsonString).text
    records.push(cells.map(decode))
  })
  try {
    for (let at = 0, nth = 0; at < bytes.length; nth++) {
      const size = Math.max(at === 0 ? FIRST_PIECE : 1, sizes[nth % sizes.length] ?? 1)
      text.write(bytes.subarray(at, at + size))
      at += size
    }
    text.end()
  } catch (error) {
    if (error instanceof MalformedFile) return error
    throw error
  }
  return records
}

/** The result of csv-parse with the same rules; null if it finds the file malformed. */
export function independently(bytes: Buffer): readonly (readonly string[])[] | null {
  try {
    return parse(bytes, {
      bom: false,
      encoding: 'latin1',
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      skip_empty_lines: true,
    }).map((record) => (record as string[]).map((cell) => visibleCell(cell, false).text))
  } catch (error) {
    if (error instanceof CsvError) return null
    throw error
  }
}
