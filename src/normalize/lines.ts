/**
 * A batch as lines for COPY: one text per table, built record by record, so that only the lines of a record stay in
 * memory.
 *
 * Invariant: the lines of a record are the same whether they are copied into the tables or into staging; a tombstone is
 * a line in `records` and a line in the root table whose data columns are null, and has no children.
 */
import { canonicalText } from '../core/canonical.ts'
import type { Envelope, Problem } from '../core/envelope.ts'
import type { Cell } from '../streams/parts/cell.ts'
import type { Stream } from '../streams/stream.ts'
import { type MappedRecord, mapRecord } from './map.ts'
import { withoutPositions } from './safe-paths.ts'

export interface BatchLines {
  /** Records, including tombstones. */
  readonly count: number
  readonly tombstones: number
  /** Teams of the records, ascending. */
  readonly teamIds: readonly number[]
  readonly records: Buffer
  readonly root: Buffer
  /** In the order of the stream's children. */
  readonly children: readonly Buffer[]
  readonly findings: Findings
}

/** Counts of problems and drift found by mapping; keys contain no value of a record. */
export interface Findings {
  problems: number
  /** Occurrences by team, `path` and `reason`, as a JSON array (`countFinding`). */
  readonly problemsAt: Map<string, number>
  /** Occurrences by team, `path` and `type`, as a JSON array. */
  readonly driftAt: Map<string, number>
}

/** Counts one problem (`what` is its reason) or drift (`what` is its type). */
export function countFinding(counts: Map<string, number>, teamId: number, path: string, what: string): void {
  const key = JSON.stringify([teamId, path, what])
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

/** A problem nests its part of a record two levels deeper than the record, whose depth was already checked. */
const PROBLEM_DEPTH = -2

export function noFindings(): Findings {
  return { problems: 0, problemsAt: new Map(), driftAt: new Map() }
}

/** Collects the lines of one batch, of any number of teams. The caller adds each key once. */
export interface LinesBuilder {
  readonly count: number
  readonly bytes: number
  add(envelope: Envelope): void
  /** Returns the lines so far; the next record starts another batch. */
  build(): BatchLines
  /** Reuses the memory of lines that this builder returned and nobody reads any more. */
  release(lines: BatchLines): void
}

export function openLines(stream: Stream): LinesBuilder {
  const records = openTextBuffer()
  const root = openTextBuffer()
  const children = stream.children.map(() => openTextBuffer())
  const noCells = '\\N\t'.repeat(stream.columns.length)
  let findings = noFindings()
  let count = 0
  let tombstones = 0
  const teamIds = new Set<number>()

  return {
    get count() {
      return count
    },
    get bytes() {
      return records.length
    },
    add(envelope) {
      const { teamId, version, content } = envelope
      const id = copyCell(envelope.id)
      const origin = copyCell(envelope.origin)
      const key = `${teamId}\t${id}\t`
      const record = `${teamId}\t${envelope.stream}\t${id}\t${version}\t${envelope.observedAt}\t${envelope.updatedAt ?? '\\N'}\t`
      teamIds.add(teamId)
      count += 1
      if (content === null) {
        tombstones += 1
        records.append(`${record}t\t\\\\x\t${origin}\t\\N\t\\N\t\\N\n`)
        root.append(`${key}${noCells}${version}\t${version}\t${origin}\t\\N\t\\N\t\\N\n`)
        return
      }
      // JSON text without a backslash contains no string that COPY needs escaped. Cells of children are such strings; a
      // cell of the root may be a list of them, which adds backslashes.
      const plain = !content.text.includes('\\')
      const mapped = mapRecord(stream, content.payload, content.problems)
      const problems = problemsCell(mapped.problems)
      const meta = `${version}\t\\N\t${origin}\t\\\\x${content.hash}\t${copyCell(mapped.extra)}\t${problems}`
      const original = `${copyCell(content.asReceived)}\t${problemsCell(content.problems)}`
      records.append(`${record}f\t\\\\x${content.hash}\t${origin}\t`)
      records.append(plain ? content.text : content.text.replaceAll('\\', '\\\\'))
      records.append(`\t${original}\n`)
      root.append(`${key}${copyCells(mapped.root)}\t${meta}\n`)
      for (let index = 0; index < children.length; index++) {
        let rows = ''
        for (const row of mapped.children[index]!) rows += `${key}${joined(row, plain)}\n`
        if (rows !== '') children[index]!.append(rows)
      }
      if (mapped.problems.length > 0 || mapped.drift.length > 0) note(findings, teamId, mapped)
    },
    build() {
      const built = {
        count,
        tombstones,
        teamIds: [...teamIds].sort((a, b) => a - b),
        records: records.take(),
        root: root.take(),
        children: children.map((child) => child.take()),
        findings,
      }
      count = 0
      tombstones = 0
      teamIds.clear()
      findings = noFindings()
      return built
    },
    release(lines) {
      records.release(lines.records)
      root.release(lines.root)
      for (let index = 0; index < children.length; index++) children[index]!.release(lines.children[index]!)
    },
  }
}

/** The cells of a row for COPY; `plain` if none of them needs escaping. */
function joined(cells: readonly Cell[], plain: boolean): string {
  if (!plain) return copyCells(cells)
  let line = ''
  for (let index = 0; index < cells.length; index++)
    line += (index === 0 ? '' : '\t') + (cells[index] ?? '\\N')
  return line
}

/** Problems as a cell. */
function problemsCell(problems: readonly Problem[]): string {
  return problems.length === 0 ? '\\N' : copyCell(canonicalText(problems, PROBLEM_DEPTH))
}

/** The lines of envelopes with distinct keys. */
export function linesOf(stream: Stream, envelopes: readonly Envelope[]): BatchLines {
  const lines = openLines(stream)
  for (const envelope of envelopes) lines.add(envelope)
  return lines.build()
}

function note(findings: Findings, teamId: number, mapped: MappedRecord): void {
  findings.problems += mapped.problems.length
  for (const { path, reason } of mapped.problems)
    countFinding(findings.problemsAt, teamId, withoutPositions(path), reason)
  for (const { path, type } of mapped.drift) countFinding(findings.driftAt, teamId, path, type)
}

/**
 * The text format of COPY. Invariant: one line per row, cells separated by tabs; cells contain only text that Postgres can
 * store (see `storable` of read-record), so encoding cannot fail.
 */
const SPECIAL = /[\\\n\r\t]/

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** One cell in the text format of COPY. */
export function copyCell(cell: Cell): string {
  if (cell === null) return '\\N'
  return SPECIAL.test(cell) ? cell.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character]!) : cell
}

/** The cells of a row, joined; no line end. */
export function copyCells(cells: readonly Cell[]): string {
  let line = ''
  for (let index = 0; index < cells.length; index++)
    line += (index === 0 ? '' : '\t') + copyCell(cells[index]!)
  return line
}

/**
 * Text collected as bytes outside the JavaScript heap: the garbage collector would copy a batch of strings again and
 * again. Invariant: `take` returns the appended bytes and starts an empty buffer of the same capacity; returned bytes do
 * not change until they are given back.
 */
export interface TextBuffer {
  readonly length: number
  append(text: string): void
  take(): Buffer
  /** Reuses a returned buffer that nobody reads any more. */
  release(taken: Buffer): void
}

const FIRST_SIZE = 64 * 1024

/** `latin1` is for text with one byte per character. */
export function openTextBuffer(encoding: 'utf8' | 'latin1' = 'utf8'): TextBuffer {
  // Reused because allocating and clearing memory costs as much as writing it, and causes collections.
  const spares: Buffer[] = []
  let bytes: Buffer = Buffer.alloc(0)
  let length = 0
  let first = FIRST_SIZE
  return {
    get length() {
      return length
    },
    append(text) {
      // UTF-8 takes three bytes at most for each unit of a JavaScript string.
      const needed = length + text.length * (encoding === 'utf8' ? 3 : 1)
      if (needed > bytes.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(first, bytes.length * 2, needed))
        bytes.copy(larger, 0, 0, length)
        bytes = larger
      }
      length += bytes.write(text, length, encoding)
    },
    take() {
      const taken = bytes.subarray(0, length)
      first = Math.max(FIRST_SIZE, length)
      bytes = spares.pop() ?? Buffer.alloc(0)
      length = 0
      return taken
    },
    release(taken) {
      spares.push(Buffer.from(taken.buffer))
    },
  }
}
