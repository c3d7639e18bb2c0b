/**
 * A batch as the lines that COPY takes: one text a table. Pure.
 *
 * Invariant: the lines of a record are the same whether they go straight to the tables or to staging; a tombstone is
 * a line in `records` and in the root table whose data columns are null, and has no children.
 */
import { canonicalText } from '../core/canonical.ts'
import type { Envelope } from '../core/envelope.ts'
import { mapRecord, withoutPositions } from '../streams/map.ts'
import type { Stream } from '../streams/stream.ts'
import { copyCell, copyCells } from './copy.ts'

export interface BatchLines {
  readonly records: string
  readonly root: string
  /** In the order of the stream's children. */
  readonly children: readonly string[]
  readonly findings: Findings
}

/** What mapping found out, counted by what it is; keys hold no value of a record. */
export interface Findings {
  problems: number
  /** Times met, by `path` and `reason` as a JSON array. */
  readonly problemsAt: Map<string, number>
  /** Times met, by `path` and `type` as a JSON array. */
  readonly driftAt: Map<string, number>
}

export function linesOf(stream: Stream, envelopes: readonly Envelope[]): BatchLines {
  const findings: Findings = { problems: 0, problemsAt: new Map(), driftAt: new Map() }
  const children = stream.children.map(() => '')
  const noCells = '\\N\t'.repeat(stream.columns.length)
  let records = ''
  let root = ''
  for (const envelope of envelopes) {
    const { teamId, version, content } = envelope
    const id = copyCell(envelope.id)
    const origin = copyCell(envelope.origin)
    const key = `${teamId}\t${id}\t`
    const record = `${teamId}\t${envelope.stream}\t${id}\t${version}\t${envelope.observedAt}\t`
    if (content === null) {
      records += `${record}t\t\\\\x\t${origin}\t\\N\n`
      root += `${key}${noCells}${version}\t${version}\t${origin}\t\\N\t\\N\t\\N\n`
      continue
    }
    const mapped = mapRecord(stream, content.payload, content.problems)
    const problems = mapped.problems.length === 0 ? '\\N' : copyCell(canonicalText(mapped.problems))
    const extra = copyCell(mapped.extra)
    records += `${record}f\t\\\\x${content.hash}\t${origin}\t${copyCell(content.text)}\n`
    root += `${key}${copyCells(mapped.root)}\t${version}\t\\N\t${origin}\t\\\\x${content.hash}\t${extra}\t${problems}\n`
    for (let at = 0; at < mapped.children.length; at++) {
      for (const row of mapped.children[at]!) children[at] += `${key}${copyCells(row)}\n`
    }
    findings.problems += mapped.problems.length
    for (const problem of mapped.problems)
      count(findings.problemsAt, withoutPositions(problem.path), problem.reason)
    for (const each of mapped.drift) count(findings.driftAt, each.path, each.type)
  }
  return { records, root, children, findings }
}

function count(counts: Map<string, number>, ...key: string[]): void {
  const text = JSON.stringify(key)
  counts.set(text, (counts.get(text) ?? 0) + 1)
}
