/**
 * Removes the records of erased patients from a batch.
 *
 * Invariant: a record is not written if it is erased, names an erased patient, or contains an erased record; its own key
 * is then stored as erased, so that an event that names only its id is recognized. Lines are checked only in teams with
 * erasures.
 */
import type { BatchLines } from '../normalize/lines.ts'
import { bytesOf, idOf, isTombstone, keyOf, linesIn, teamsIn, unescaped } from '../normalize/split-lines.ts'
import type { Stream } from '../streams/stream.ts'
import { type NamingColumn, namingColumns } from '../streams/subjects.ts'
import type { Session } from '../warehouse/connect.ts'
import { countSkipped, type Erasures, erasedAmong, openErasuresOf, type Skipped } from './erasures.ts'

/** Cells of a line that come before its columns: team and id. */
const KEY_CELLS = 2

interface Options {
  /** Stores no counts and hashes, for callers that only compare. */
  readonly quietly?: boolean
  /** Teams that this transaction has already found to have no erasures. */
  readonly withoutErasures?: ReadonlySet<number> | undefined
}

/** Within the load's transaction. */
export async function withoutErased(
  { db }: Session,
  stream: Stream,
  lines: BatchLines,
  { quietly = false, withoutErasures }: Options = {},
): Promise<BatchLines> {
  const asked = lines.teamIds.filter((teamId) => withoutErasures?.has(teamId) !== true)
  const dropped = new Set<string>()
  for (const erasures of (await openErasuresOf(db, asked)).values()) {
    const hashesByLine = hashesOf(stream, lines, erasures)
    const erased = await erasedAmong(db, [...hashesByLine.values()].flat())
    if (erased.size === 0) continue
    const skipped: Skipped[] = []
    for (const [key, hashes] of hashesByLine) {
      const patient = hashes.map((hash) => erased.get(hash)).find((found) => found !== undefined)
      if (patient === undefined) continue
      dropped.add(key)
      skipped.push({ hash: hashes[0]!, patient, times: 1 })
    }
    if (!quietly) await countSkipped(db, erasures, skipped)
  }
  return dropped.size === 0 ? lines : without(lines, dropped)
}

/** By key, the hashes of the team's records: first of a record's own id, then of the ids that it names. */
function hashesOf(
  stream: Stream,
  lines: BatchLines,
  { teamId, hashOf }: Erasures,
): ReadonlyMap<string, readonly string[]> {
  const own = `${teamId}\t`
  const hashesByKey = new Map<string, string[]>()
  const note = (line: string, columns: readonly NamingColumn[]) => {
    if (!line.startsWith(own)) return
    const key = keyOf(line)
    const hashes = hashesByKey.get(key) ?? [hashOf({ stream: stream.name, id: unescaped(idOf(line)) })]
    hashesByKey.set(key, hashes)
    if (columns.length === 0) return
    const cells = line.split('\t')
    for (const { at, names } of columns) {
      const cell = cells[KEY_CELLS + at]!
      if (cell !== '\\N') hashes.push(hashOf({ stream: names, id: unescaped(cell) }))
    }
  }
  const { root, children } = namingColumns(stream)
  for (const line of linesIn(lines.root)) note(line, root)
  children.forEach((columns, at) => {
    if (columns.length === 0) return
    for (const line of linesIn(lines.children[at]!)) note(line, columns)
  })
  return hashesByKey
}

function without(lines: BatchLines, keys: ReadonlySet<string>): BatchLines {
  const keep = (bytes: Buffer, of: (line: string) => string) =>
    linesIn(bytes).filter((line) => !keys.has(of(line)))
  const records = keep(lines.records, (line) => {
    const [team, , id] = line.split('\t', 3)
    return `${team}\t${id}`
  })
  const root = keep(lines.root, keyOf)
  return {
    ...lines,
    count: records.length,
    tombstones: records.filter(isTombstone).length,
    teamIds: teamsIn(root),
    records: bytesOf(records),
    root: bytesOf(root),
    children: lines.children.map((child) => bytesOf(keep(child, keyOf))),
  }
}
