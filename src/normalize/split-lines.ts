/**
 * Splits a batch that Postgres refused, to find the record at fault. Rare, so simple rather than fast.
 *
 * Invariant: the two parts together contain every line of the batch, the lines of a record in one part; the first part
 * has all findings.
 */
import { type BatchLines, noFindings } from './lines.ts'

/** Splits the lines of two or more records. */
export function splitLines(lines: BatchLines): readonly [BatchLines, BatchLines] {
  const records = linesIn(lines.records)
  const root = linesIn(lines.root)
  const middle = records.length >> 1
  const firstKeys = new Set(root.slice(0, middle).map(keyOf))
  const children = lines.children.map(linesIn)
  const part = (from: number, to: number, first: boolean): BatchLines => ({
    count: to - from,
    tombstones: records.slice(from, to).filter(isTombstone).length,
    teamIds: teamsIn(root.slice(from, to)),
    records: bytesOf(records.slice(from, to)),
    root: bytesOf(root.slice(from, to)),
    children: children.map((child) => bytesOf(child.filter((line) => firstKeys.has(keyOf(line)) === first))),
    findings: first ? lines.findings : noFindings(),
  })
  return [part(0, middle, true), part(middle, records.length, false)]
}

export interface RefusedRecord {
  readonly id: string
  readonly origin: string
  /** Payload as JSON text. */
  readonly body: string
}

/** The record of lines that contain exactly one. */
export function onlyRecord(lines: BatchLines): RefusedRecord {
  const cells = (linesIn(lines.records)[0] ?? '').split('\t').map(unescaped)
  return { id: cells[2] ?? '', origin: cells[8] ?? '', body: cells[9] ?? '' }
}

/** No lines, with the findings. */
export function withoutRecords(lines: BatchLines): BatchLines {
  const none = Buffer.alloc(0)
  const children = lines.children.map(() => none)
  return {
    count: 0,
    tombstones: 0,
    teamIds: [],
    records: none,
    root: none,
    children,
    findings: lines.findings,
  }
}

export function linesIn(bytes: Buffer): readonly string[] {
  return bytes.length === 0 ? [] : bytes.toString('utf8').slice(0, -1).split('\n')
}

export function bytesOf(lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${line}\n`).join(''))
}

/** Team and id of a line of the root or of a child, in the text format of COPY. */
export function keyOf(line: string): string {
  return line.slice(0, line.indexOf('\t', line.indexOf('\t') + 1))
}

/** Teams of lines of the root, ascending. */
export function teamsIn(lines: readonly string[]): readonly number[] {
  const teamIds = new Set(lines.map((line) => Number(line.slice(0, line.indexOf('\t')))))
  return [...teamIds].sort((a, b) => a - b)
}

/** The id of a line of the root or of a child, in the text format of COPY: its second cell. */
export function idOf(line: string): string {
  const from = line.indexOf('\t') + 1
  return line.slice(from, line.indexOf('\t', from))
}

export function isTombstone(line: string): boolean {
  return line.split('\t', 7)[6] === 't'
}

/** The value of a cell in the text format of COPY; a null is empty. */
export function unescaped(cell: string): string {
  const escapes: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', '\\': '\\', N: '' }
  return cell.replace(/\\(.)/g, (_, character: string) => escapes[character] ?? character)
}
