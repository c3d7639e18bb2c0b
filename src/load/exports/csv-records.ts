/**
 * CSV, piece by piece, as strictly as an export is read: records end with CR, LF, CRLF or CR CR LF, mixed at will; a
 * blank line is no record; a cell is quoted as a whole or not at all.
 *
 * Invariant: the records do not depend on where one piece ends and the next begins; nothing is held but the record
 * under way. What is malformed is a `MalformedFile` that names a line and shows nothing of it. Text is taken and given
 * as latin1, a character a byte, so that no byte is lost before a cell is decoded: in UTF-8 what separates cells is
 * never part of another character.
 */
import { MalformedFile } from './malformed-file.ts'

export interface CsvRecords {
  /** Reads on; each record that ends in this piece is handed over at once. Throws `MalformedFile`. */
  write(piece: string): void
  /** There is no more: the last record may end without a line end. Throws `MalformedFile`. */
  end(): void
}

/** A quoted cell without end would otherwise take in the whole rest of a file. */
const LARGEST_RECORD = 64 * 1024 * 1024

const COMMA = 44
const QUOTE = 34
const CR = 13
const LF = 10

/**
 * - `start`: before a cell; with cells before it in the record, after a comma.
 * - `closed`: after a quote within a quoted cell, which ends the cell or is the first of a quote written twice.
 */
type Place = 'start' | 'bare' | 'quoted' | 'closed'

export function openCsvRecords(onRecord: (cells: readonly string[]) => void): CsvRecords {
  let place: Place = 'start'
  let cells: string[] = []
  /** The part of the cell under way that is passed. */
  let begun = ''
  /** Bytes of the record under way. */
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

  /** Passes the comma or line end at `at`, which ended a cell or stands on a blank line. */
  function pass(code: number): void {
    if (code === COMMA) return
    endRecord()
    line += 1
    afterCr = code === CR
  }

  /** Passes what belongs to the quoted cell under way; returns where it left off. */
  function readQuoted(piece: string, from: number): number {
    const quote = piece.indexOf('"', from)
    keep(piece.slice(from, quote < 0 ? piece.length : quote))
    if (quote < 0) return piece.length
    place = 'closed'
    return quote + 1
  }

  /** Passes what belongs to the bare cell under way; returns where it ends, or the piece's end when that is not seen. */
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
    let at = 0
    while (at < piece.length) {
      if (place === 'quoted') {
        at = readQuoted(piece, at)
        continue
      }
      const code = piece.charCodeAt(at)
      const ends = code === COMMA || code === CR || code === LF
      if (afterCr) {
        afterCr = false
        if (code === LF) {
          at += 1
          continue
        }
      }
      if (place === 'closed' && code === QUOTE) {
        keep('"')
        place = 'quoted'
        at += 1
        continue
      }
      if (place === 'closed') {
        if (!ends) throw new MalformedFile('bytes after a closing quote', line + lineEnds(begun))
        endQuoted()
      } else if (place === 'start' && code === QUOTE) {
        place = 'quoted'
        openedAt = line
        at += 1
        continue
      } else if (place === 'bare' || cells.length > 0 || code === COMMA || !ends) {
        at = readBare(piece, at)
        if (at === piece.length) break
      }
      pass(piece.charCodeAt(at))
      at += 1
    }
    if (size > LARGEST_RECORD)
      throw new MalformedFile(`a record of more than ${LARGEST_RECORD >> 20} MiB`, openedAt)
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
