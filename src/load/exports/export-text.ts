/**
 * The stored bytes of an export → the records of its CSV.
 *
 *     bytes ─► [JSON string ─► its inside] ─► byte order mark off ─► records
 *
 * Invariant: the records do not depend on how the bytes are split into pieces, provided that the first piece has at least
 * `FIRST_PIECE` bytes or is the whole file. `allStorable` covers a record before `onRecord` receives it.
 */
import { openCsvRecords } from './csv-records.ts'
import { openJsonString } from './json-string.ts'
import { watchUtf8 } from './utf8-watch.ts'

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
    textBegun ||= bytes.length > 0
    watch.see(piece)
    csv.write(piece.toString('latin1'))
  }

  return {
    get allStorable() {
      return watch.allStorable
    },
    write(bytes) {
      const piece = rawBegun ? bytes : withoutBom(bytes)
      rawBegun ||= bytes.length > 0
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
export function comesAsJsonString(contentType: string | undefined, first: Buffer): boolean {
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
