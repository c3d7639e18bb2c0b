/**
 * One record → the rows of its root and child tables. Pure: the same record gives the same rows, whatever its origin.
 *
 * Invariant: every top-level field of the payload is read by a column or a child, or is in `_extra`.
 */
import { canonicalText } from '../core/canonical.ts'
import type { Problem } from '../core/envelope.ts'
import { isLosslessNumber, type JsonObject } from '../core/json.ts'
import type { Cell } from '../streams/parts/cell.ts'
import { cellsOf } from '../streams/parts/parts.ts'
import type { Stream } from '../streams/stream.ts'
import { withoutPositions } from './safe-paths.ts'

export interface MappedRecord {
  /** Cells of the stream's columns. */
  readonly root: readonly Cell[]
  /** For each child of the stream, its rows. */
  readonly children: readonly (readonly (readonly Cell[])[])[]
  /** JSON text of the unknown fields, or null. */
  readonly extra: string | null
  readonly problems: readonly Problem[]
  readonly drift: readonly Drift[]
}

/** An unknown field, or a field of an unexpected type. */
export interface Drift {
  readonly path: string
  readonly type: string
}

const knownFields = new WeakMap<Stream, ReadonlySet<string>>()

export function mapRecord(stream: Stream, payload: JsonObject, earlier: readonly Problem[]): MappedRecord {
  const problems: Problem[] = [...earlier]
  const root = cellsOf(stream.columns, payload, '', problems)
  const children = stream.children.map((child) => child.rows(payload, problems))
  const drift: Drift[] = []
  const extra = unknownFields(stream, payload, drift)
  for (const problem of problems) {
    if (typeof problem.original !== 'string')
      drift.push({ path: withoutPositions(problem.path), type: typeOf(problem.original) })
  }
  return { root, children, extra, problems, drift }
}

function unknownFields(stream: Stream, payload: JsonObject, drift: Drift[]): string | null {
  const known = knownFieldsOf(stream)
  let extra: Record<string, unknown> | null = null
  for (const field in payload) {
    if (known.has(field)) continue
    extra ??= Object.create(null) as Record<string, unknown>
    extra[field] = payload[field]
    drift.push({ path: field, type: typeOf(payload[field]) })
  }
  return extra === null ? null : canonicalText(extra)
}

function knownFieldsOf(stream: Stream): ReadonlySet<string> {
  const known = knownFields.get(stream)
  if (known !== undefined) return known
  const fields = new Set([
    'id',
    'uid',
    ...stream.columns.flatMap((column) => column.from),
    ...stream.otherFields,
  ])
  knownFields.set(stream, fields)
  return fields
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return isLosslessNumber(value) ? 'number' : typeof value
}
