/**
 * The patients that a record refers to: by the columns of its tables that name a patient, or a response of a patient.
 *
 * Invariant: derived from the stream's declaration alone, so that a new stream is covered; the record itself is always
 * one of its subjects.
 */
import type { JsonObject } from '../core/json.ts'
import type { StreamName } from '../core/streams.ts'
import type { Cell } from './parts/cell.ts'
import { cellsOf } from './parts/parts.ts'
import type { Column, Stream } from './stream.ts'

/** A record, by its key within a team. */
export interface Subject {
  readonly stream: StreamName
  readonly id: string
}

const NAMES: Readonly<Record<string, StreamName>> = { patient_id: 'patients', response_id: 'responses' }

/** A column by its place among those of its table, after the key. */
export interface NamingColumn {
  readonly at: number
  readonly names: StreamName
}

/** Of the root table, and of each child. */
export function namingColumns(stream: Pick<Stream, 'columns' | 'children'>): {
  readonly root: readonly NamingColumn[]
  readonly children: readonly (readonly NamingColumn[])[]
} {
  return {
    root: naming(stream.columns.map(({ name }) => name)),
    children: stream.children.map(({ columns }) => naming(columns)),
  }
}

function naming(columns: readonly string[]): readonly NamingColumn[] {
  return columns.flatMap((name, at) => {
    const names = NAMES[name]
    return names === undefined ? [] : [{ at, names }]
  })
}

/** The subjects of a payload, except the record itself. */
export function namedIn(stream: Stream, payload: JsonObject): readonly Subject[] {
  const { root, children } = namingColumns(stream)
  const columns = root.map(({ at }) => stream.columns[at] as Column)
  const cells = cellsOf(columns, payload, '', [])
  const found = root.map(({ names }, at) => subject(names, cells[at]!))
  children.forEach((each, at) => {
    if (each.length === 0) return
    for (const row of stream.children[at]!.rows(payload, [])) {
      for (const { at: place, names } of each) found.push(subject(names, row[place]!))
    }
  })
  return found.filter((each) => each !== null)
}

function subject(stream: StreamName, id: Cell): Subject | null {
  return id === null || id === '' ? null : { stream, id }
}
