/**
 * A batch without what is an erased patient's.
 *
 * Invariant: nothing of a record is written that is erased, names an erased patient, or holds a record that is erased;
 * its own key is noted then, so that what tells of it by its id alone is known too. Where nobody was erased the lines
 * are not looked at.
 */

import type { Stream } from '../streams/stream.ts'
import { type NamingColumn, namingColumns } from '../streams/subjects.ts'
import type { Session } from '../warehouse/connect.ts'
import { countSkipped, erasedAmong, openErasures, type Skipped } from './erasures.ts'
import type { BatchLines } from './lines.ts'
import { bytesOf, idOf, isTombstone, linesIn, unescaped } from './split-lines.ts'

/** Cells of a line that come before its columns: team and id. */
const KEY_CELLS = 2

/** Within the load's transaction; `quietly`: nothing is counted or noted, for what only looks. */
export async function withoutErased(
  { db }: Session,
  stream: Stream,
  teamId: number,
  lines: BatchLines,
  { quietly = false } = {},
): Promise<BatchLines> {
  const erasures = lines.count === 0 ? null : await openErasures(db, teamId)
  if (erasures === null) return lines
  const hashesById = new Map<string, string[]>()
  const note = (line: string, columns: readonly NamingColumn[]) => {
    const id = idOf(line)
    const hashes = hashesById.get(id) ?? [erasures.hashOf({ stream: stream.name, id: unescaped(id) })]
    hashesById.set(id, hashes)
    if (columns.length === 0) return
    const cells = line.split('\t')
    for (const { at, names } of columns) {
      const cell = cells[KEY_CELLS + at]!
      if (cell !== '\\N') hashes.push(erasures.hashOf({ stream: names, id: unescaped(cell) }))
    }
  }
  const { root, children } = namingColumns(stream)
  for (const line of linesIn(lines.root)) note(line, root)
  children.forEach((columns, at) => {
    if (columns.length === 0) return
    for (const line of linesIn(lines.children[at]!)) note(line, columns)
  })
  const erased = await erasedAmong(db, [...hashesById.values()].flat())
  if (erased.size === 0) return lines
  const dropped = new Set<string>()
  const skipped: Skipped[] = []
  for (const [id, hashes] of hashesById) {
    const patient = hashes.map((hash) => erased.get(hash)).find((found) => found !== undefined)
    if (patient === undefined) continue
    dropped.add(id)
    skipped.push({ hash: hashes[0]!, patient, times: 1 })
  }
  if (!quietly) await countSkipped(db, erasures, skipped)
  return without(lines, dropped)
}

function without(lines: BatchLines, ids: ReadonlySet<string>): BatchLines {
  const keep = (bytes: Buffer, of: (line: string) => string) =>
    linesIn(bytes).filter((line) => !ids.has(of(line)))
  const records = keep(lines.records, (line) => line.split('\t', 3)[2]!)
  return {
    ...lines,
    count: records.length,
    tombstones: records.filter(isTombstone).length,
    records: bytesOf(records),
    root: bytesOf(keep(lines.root, idOf)),
    children: lines.children.map((child) => bytesOf(keep(child, idOf))),
  }
}
