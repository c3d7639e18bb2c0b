/**
 * The bytes of an export, as they were kept, to the records of its CSV.
 *
 *     bytes ─► [JSON string ─► its inside] ─► byte order mark off ─► records
 *
 * Invariant: the records are the same however the bytes are cut into pieces, the first of which is at least
 * `FIRST_PIECE` long or the whole file. What can be stored is told before the records that hold it are handed over.
 */
import { openCsvRecords } from './csv-records.ts'
import { openJsonString } from './json-string.ts'
import { watchUtf8 } from './utf8-watch.ts'

/** Holds a byte order mark, written as an escape, and the quote before it. */
export const FIRST_PIECE = 16

const BOM = Buffer.from('\ufeff')

export interface ExportText {
  /** True as long as every byte so far can be stored as text. */
  readonly allStorable: boolean
  /** Throws `MalformedFile`. */
  write(piece: Buffer): void
  /** Throws `MalformedFile`. */
  end(): void
}

/** `onRecord` takes cells as latin1, a character a byte. */
export function openExportText(
  { isJsonString }: { readonly isJsonString: boolean },
  onRecord: (cells: readonly string[]) => void,
): ExportText {
  const csv = openCsvRecords(onRecord)
  const watch = watchUtf8()
  const unquote = isJsonString ? openJsonString() : null
  let rawBegun = false
  let textBegun = false

  function writeText(came: Buffer): void {
    const piece = textBegun ? came : withoutBom(came)
    textBegun ||= came.length > 0
    watch.see(piece)
    csv.write(piece.toString('latin1'))
  }

  return {
    get allStorable() {
      return watch.allStorable
    },
    write(came) {
      const piece = rawBegun ? came : withoutBom(came)
      rawBegun ||= came.length > 0
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

/** True for a file that came as one JSON string. CSV may begin with a quote too, so its type has to say JSON. */
export function comesAsJsonString(contentType: string | undefined, first: Buffer): boolean {
  const text = withoutBom(first)
  // As text: a file whose first title opens a quote that does not end with the title.
  if (!/^\s*application\/json\b/i.test(contentType ?? ''))
    return text.subarray(0, QUOTED_HEAD.length).equals(QUOTED_HEAD)
  const begin = text.findIndex((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d)
  return begin >= 0 && text[begin] === 0x22
}

function withoutBom(piece: Buffer): Buffer {
  return piece.subarray(0, 3).equals(BOM) ? piece.subarray(3) : piece
}
