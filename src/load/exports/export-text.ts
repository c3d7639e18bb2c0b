/**
 * The stored bytes of an export → the records of its CSV.
 *
 *     bytes ─► [JSON string ─► its inside] ─► byte order mark off ─► records
 *
 * Invariant: the records do not depend on how the bytes are split into pieces, provided that the first piece has at least
 * `FIRST_PIECE` bytes or is the whole file. `allStorable` covers a record before `onRecord` receives it.
 */
import { watchUtf8 } from './cell-text.ts'
import { MalformedFile } from './file-problems.ts'
import { openJsonString } from './json-string.ts'

/** Bytes for a quote and a byte order mark that is written as an escape. */
export const FIRST_PIECE = 16

const BOM = Buffer.from('\ufeff')

export interface ExportText {
  /** True if every byte so far can be stored as text. */
  readonly allStorable: boolean
  /** Throws `MalformedFile`. */
  write(piece: Buffer): void
  /** Throws `MalformedFile`. */
  end(): void
}

/** `onRecord` receives cells as latin1, one character per byte. */
export function openExportText(
  { isJsonString }: { readonly isJsonString: boolean },
  onRecord: (cells: readonly string[]) => void,
): ExportText {
  const csv = openCsvRecords(onRecord)
  const watch = watchUtf8()
  const unquote = isJsonString ? openJsonString() : null
  let rawBegun = false
  let textBegun = false

  function writeText(bytes: Buffer): void {
    const piece = textBegun ? bytes : withoutBom(bytes)
    textBegun = true
    watch.see(piece)
    csv.write(piece.toString('latin1'))
  }

  return {
    get allStorable() {
      return watch.allStorable
    },
    write(bytes) {
      const piece = rawBegun ? bytes : withoutBom(bytes)
      rawBegun = true
      if (unquote === null) {
        textBegun = true
        writeText(piece)
      } else writeText(unquote.write(piece))
    },
    end() {
      unquote?.end()
      watch.end()
      csv.end()
    },
  }
}

const QUOTED_HEAD = Buffer.from('"Client ID,')

/** True for a file that is one JSON string. CSV may start with a quote too, so the content type must be JSON. */
export function isSentAsJsonString(contentType: string | undefined, first: Buffer): boolean {
  const text = withoutBom(first)
  // With another type: the first title starts with a quote but does not end with one.
  if (!/^\s*application\/json\b/i.test(contentType ?? ''))
    return text.subarray(0, QUOTED_HEAD.length).equals(QUOTED_HEAD)
  const begin = text.findIndex((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d)
  return begin >= 0 && text[begin] === 0x22
}

function withoutBom(piece: Buffer): Buffer {
  return piece.subarray(0, 3).equals(BOM) ? piece.subarray(3) : piece
}

/**
 * A strict incremental CSV parser: records end with CR, LF, CRLF or CR CR LF, in any mixture; a blank line is no record; a
 * cell is quoted as a whole or not at all.
 *
 * Invariant: the records do not depend on how the input is split into pieces; only the current record is buffered. A
 * malformed record throws `MalformedFile`, which names its line and shows no part of it. Input and cells are latin1, one
 * character per byte, so that no byte is lost before a cell is decoded: in UTF-8 a separator is never part of another
 * character.
 */
export interface CsvRecords {
  /** Parses a piece; calls `onRecord` for each record that ends in it. Throws `MalformedFile`. */
  write(piece: string): void
  /** Ends the input; the last record needs no line end. Throws `MalformedFile`. */
  end(): void
}

/** Otherwise a quoted cell without end would buffer the whole rest of a file. */
const MAX_RECORD_BYTES = 64 * 1024 * 1024

const COMMA = 44
const QUOTE = 34
const CR = 13
const LF = 10

/**
 * - `start`: before a cell; with cells before it in the record, after a comma.
 * - `closed`: after a quote within a quoted cell, which ends the cell or is the first of a quote written twice.
 */
type Place = 'start' | 'bare' | 'quoted' | 'closed'

function openCsvRecords(onRecord: (cells: readonly string[]) => void): CsvRecords {
  let place: Place = 'start'
  let cells: string[] = []
  /** The current cell, as far as it was read. */
  let begun = ''
  /** Bytes of the current record. */
  let size = 0
  let line = 1
  let openedAt = 1
  /** The last line end was a CR: an LF right after it belongs to it. */
  let afterCr = false

  function keep(part: string): void {
    begun = begun === '' ? part : begun + part
    size += part.length
  }

  function endCell(rest: string): void {
    cells.push(begun === '' ? rest : begun + rest)
    size += rest.length + 1
    begun = ''
    place = 'start'
  }

  function endRecord(): void {
    if (cells.length === 0) return
    const record = cells
    cells = []
    size = 0
    onRecord(record)
  }

  function endQuoted(): void {
    line += lineEnds(begun)
    endCell('')
  }

  /** Handles the comma or line end after a cell or on a blank line. */
  function pass(code: number): void {
    if (code === COMMA) return
    endRecord()
    line += 1
    afterCr = code === CR
  }

  /** Reads on in a quoted cell; returns the position after it. */
  function readQuoted(piece: string, from: number): number {
    const quote = piece.indexOf('"', from)
    keep(piece.slice(from, quote < 0 ? piece.length : quote))
    if (quote < 0) return piece.length
    place = 'closed'
    return quote + 1
  }

  /** Reads on in a bare cell; returns the position of its end, or the length of the piece. */
  function readBare(piece: string, from: number): number {
    let to = from
    for (; to < piece.length; to++) {
      const code = piece.charCodeAt(to)
      if (code === COMMA || code === CR || code === LF) {
        endCell(piece.slice(from, to))
        return to
      }
      if (code === QUOTE) throw new MalformedFile('a quote inside a bare cell', line)
    }
    place = 'bare'
    keep(piece.slice(from))
    return to
  }

  function write(piece: string): void {
    let position = 0
    while (position < piece.length) {
      if (place === 'quoted') {
        position = readQuoted(piece, position)
        continue
      }
      const code = piece.charCodeAt(position)
      const ends = code === COMMA || code === CR || code === LF
      if (afterCr) {
        afterCr = false
        if (code === LF) {
          position += 1
          continue
        }
      }
      if (place === 'closed' && code === QUOTE) {
        keep('"')
        place = 'quoted'
        position += 1
        continue
      }
      if (place === 'closed') {
        if (!ends) throw new MalformedFile('bytes after a closing quote', line + lineEnds(begun))
        endQuoted()
      } else if (place === 'start' && code === QUOTE) {
        place = 'quoted'
        openedAt = line
        position += 1
        continue
      } else if (place === 'bare' || cells.length > 0 || code === COMMA || !ends) {
        position = readBare(piece, position)
        if (position === piece.length) break
      }
      pass(piece.charCodeAt(position))
      position += 1
    }
    if (size > MAX_RECORD_BYTES)
      throw new MalformedFile(`a record of more than ${MAX_RECORD_BYTES >> 20} MiB`, openedAt)
  }

  function end(): void {
    if (place === 'quoted') throw new MalformedFile('a quoted cell without end', openedAt)
    if (place === 'closed') endQuoted()
    else if (place === 'bare' || cells.length > 0) endCell('')
    endRecord()
  }

  return { write, end }
}

function lineEnds(text: string): number {
  if (!text.includes('\n') && !text.includes('\r')) return 0
  return text.match(/\r\n|\r|\n/g)?.length ?? 0
}
