/**
 * Pieces of bytes in a file: input that a benchmark has ready before its clock starts, without keeping it in memory.
 * Invariant: piece n reads back as it was added; the file has no name, so nothing is left behind.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Spool extends Disposable {
  readonly count: number
  add(piece: Buffer): void
  at(index: number): Buffer
  all(): Iterable<Buffer>
}

export function openSpool(): Spool {
  const folder = mkdtempSync(join(tmpdir(), 'intake-bench-'))
  const file = openSync(join(folder, 'spool'), 'wx+')
  rmSync(folder, { recursive: true })
  const ends: number[] = [0]
  const pieceAt = (index: number) => {
    const start = ends[index]!
    const piece = Buffer.allocUnsafeSlow(ends[index + 1]! - start)
    for (let at = 0; at < piece.length; ) at += readSync(file, piece, at, piece.length - at, start + at)
    return piece
  }
  return {
    get count() {
      return ends.length - 1
    },
    add(piece) {
      const start = ends.at(-1)!
      for (let at = 0; at < piece.length; ) at += writeSync(file, piece, at, piece.length - at, start + at)
      ends.push(start + piece.length)
    },
    at: pieceAt,
    *all() {
      for (let index = 0; index + 1 < ends.length; index++) yield pieceAt(index)
    },
    [Symbol.dispose]: () => closeSync(file),
  }
}
