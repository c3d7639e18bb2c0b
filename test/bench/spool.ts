/**
 * Pieces of bytes in a file: input that a benchmark has ready before its clock starts, without keeping it in memory.
 * Invariant: piece n reads back as it was added; the file has no name, so nothing is left behind.
 */
import { closeSync, fstatSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Spool extends Disposable {
  readonly count: number
  readonly bytes: number
  /** Descriptor of its file, for a child process. */
  readonly file: number
  add(piece: Buffer): void
  at(index: number): Buffer
  all(): Iterable<Buffer>
}

export function openSpool(): Spool {
  const folder = mkdtempSync(join(tmpdir(), 'intake-bench-'))
  const file = openSync(join(folder, 'spool'), 'wx+')
  rmSync(folder, { recursive: true })
  return spoolIn(file)
}

/** The length of each piece precedes it. */
const LENGTH_BYTES = 4

/** The spool that another process wrote into this file. */
export function spoolIn(file: number): Spool {
  /** Where each piece starts, and where the next one will. */
  const starts: number[] = [LENGTH_BYTES]
  const length = Buffer.alloc(LENGTH_BYTES)
  const startNext = (bytes: number) => starts.push(starts.at(-1)! + bytes + LENGTH_BYTES)
  for (const { size } = fstatSync(file); starts.at(-1)! < size; startNext(length.readUInt32BE()))
    readSync(file, length, 0, LENGTH_BYTES, starts.at(-1)! - LENGTH_BYTES)
  const pieceAt = (index: number) => {
    const start = starts[index]!
    const piece = Buffer.allocUnsafeSlow(starts[index + 1]! - start - LENGTH_BYTES)
    for (let at = 0; at < piece.length; ) at += readSync(file, piece, at, piece.length - at, start + at)
    return piece
  }
  const write = (bytes: Buffer, start: number) => {
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, start + at)
  }
  return {
    file,
    get count() {
      return starts.length - 1
    },
    get bytes() {
      return starts.at(-1)! - starts.length * LENGTH_BYTES
    },
    add(piece) {
      length.writeUInt32BE(piece.length)
      write(length, starts.at(-1)! - LENGTH_BYTES)
      write(piece, starts.at(-1)!)
      startNext(piece.length)
    },
    at: pieceAt,
    *all() {
      for (let index = 0; index + 1 < starts.length; index++) yield pieceAt(index)
    },
    [Symbol.dispose]: () => closeSync(file),
  }
}
