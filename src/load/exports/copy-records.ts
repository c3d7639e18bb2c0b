/**
 * The bytes of an export's file → lines of its rows and cells, copied to the given tables.
 *
 *     chunk ─► records ─► lines ─► COPY, while the next chunk is read
 *
 * Invariant: memory holds a chunk and its lines, whatever the size of the file.
 */
import { setImmediate } from 'node:timers/promises'
import type { Session } from '../../warehouse/connect.ts'
import { sendCopy } from '../merge/copy.ts'
import { openExportText } from './export-text.ts'
import type { FileLines } from './file-lines.ts'

/** Bytes read before the event loop gets a turn, so that it can write to the connection. */
const BREATH = 64 * 1024

export interface KeptFile {
  readonly isJsonString: boolean
  readonly chunks: number
  /** A chunk by its number, from 1. */
  readonly chunk: (number: number) => Promise<Buffer>
}

/** COPY statements for the lines. */
export interface RowsAndCells {
  readonly rows: string
  readonly cells: string
}

/** Throws `MalformedFile`. */
export async function copyRecords(
  { client }: Session,
  file: KeptFile,
  lines: FileLines,
  into: RowsAndCells,
): Promise<void> {
  async function send(rows: Buffer, cells: Buffer): Promise<void> {
    await sendCopy(client, into.rows, rows)
    await sendCopy(client, into.cells, cells)
  }
  const text = openExportText(file, (cells) => lines.add(cells, text.allStorable))
  let sending = Promise.resolve()
  try {
    for (let number = 1; number <= file.chunks; number++) {
      // The connection runs one statement at a time; the fetched chunk is parsed while it sends.
      await sending
      const chunk = await file.chunk(number)
      sending = send(lines.rowLines.take(), lines.cellLines.take())
      sending.catch(() => {})
      for (let at = 0; at < chunk.length; at += BREATH) {
        text.write(chunk.subarray(at, at + BREATH))
        await setImmediate()
      }
    }
    text.end()
  } finally {
    // Also after an error: the connection takes no other statement before this one ends.
    await sending
  }
  await send(lines.rowLines.take(), lines.cellLines.take())
}
