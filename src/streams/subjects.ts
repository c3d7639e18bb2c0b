/**
 * The persons that a record refers to: by the columns of its tables that name a person, or a record of a person.
 *
 * Invariant: derived from the declarations alone, so that a new stream is covered; the record itself is always one of its
 * subjects.
 */
import type { StreamName } from '../core/envelope.ts'
import type { JsonObject } from '../core/json.ts'
import { ALL_STREAMS, PERSONS } from './catalogue.ts'
import type { Cell } from './parts/cell.ts'
import { cellsOf } from './parts/parts.ts'
import type { Column, Stream } from './stream.ts'

/** A record, by its key within a team. */
export interface Subject {
  readonly stream: StreamName
  readonly id: string
}

/** Streams whose records belong to a person: a column of their root table names one. */
export const STREAMS_OF_PERSONS: ReadonlySet<StreamName> = new Set(
  ALL_STREAMS.filter(({ columns }) => columns.some(({ to }) => to === PERSONS.name)).map(({ name }) => name),
)

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
    root: naming(stream.columns.map(({ to }) => to)),
    children: stream.children.map(({ columns, references }) =>
      naming(columns.map((name) => references?.[name])),
    ),
  }
}

/** `to`: the streams that the columns name. */
function naming(to: readonly (StreamName | undefined)[]): readonly NamingColumn[] {
  return to.flatMap((names, index) =>
    names === PERSONS.name || (names !== undefined && STREAMS_OF_PERSONS.has(names))
      ? [{ at: index, names }]
      : [],
  )
}

/** The subjects of a payload, except the record itself. */
export function subjectsNamedIn(stream: Stream, payload: JsonObject): readonly Subject[] {
  const { root, children } = namingColumns(stream)
  const columns = root.map(({ at }) => stream.columns[at] as Column)
  const cells = cellsOf(columns, payload, '', [])
  const found = root.map(({ names }, index) => subject(names, cells[index]!))
  children.forEach((each, index) => {
    if (each.length === 0) return
    for (const row of stream.children[index]!.rows(payload, [])) {
      for (const { at: place, names } of each) found.push(subject(names, row[place]!))
    }
  })
  return found.filter((each) => each !== null)
}

function subject(stream: StreamName, id: Cell): Subject | null {
  return id === null ? null : { stream, id }
}
