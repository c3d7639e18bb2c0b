/**
 * What a stream is: data that says how a record of one resource is keyed, read and laid into tables. The stages
 * (extract, load, verify …) are given a stream; none of them asks which one it is.
 */
import type { PathName } from '../api/paths.ts'
import type { JsonObject } from '../core/json.ts'
import type { Problem } from '../core/problem.ts'
import type { StreamName } from '../core/streams.ts'
import type { Cell, CellType } from './cell.ts'

/** A column and the fields it may be read from: the first that is there and not null. */
export interface Column {
  readonly name: string
  readonly type: CellType
  readonly from: readonly string[]
}

/** A table whose rows are replaced with their parent's. Keyed by team, parent and what else its columns say. */
export interface Child {
  readonly table: string
  /** Column that holds the parent's id. */
  readonly parent: string
  /** Columns after team and parent, in the order of the cells of a row. */
  readonly columns: readonly string[]
  /** The record's rows. */
  readonly rows: (record: JsonObject, problems: Problem[]) => readonly (readonly Cell[])[]
}

export interface Stream {
  readonly name: StreamName
  /** Paths of the API's table: the list, and one record by id. */
  readonly list: PathName
  readonly one: PathName
  /** Root table in schema `intake`, keyed by team and id. */
  readonly table: string
  readonly columns: readonly Column[]
  readonly children: readonly Child[]
  /** Fields that the children read, or that need no column; what is named nowhere is unknown. */
  readonly otherFields: readonly string[]
  /**
   * True for a list entry that lacks what only the record fetched by id holds, given the version that is asked for. Absent where lists are known to hold
   * whole records.
   */
  readonly isSummary?: (record: JsonObject, apiVersion: string) => boolean
}

export function text(name: string, ...aliases: string[]): Column {
  return { name, type: 'text', from: [name, ...aliases] }
}

export function time(name: string, ...aliases: string[]): Column {
  return { name, type: 'time', from: [name, ...aliases] }
}

export function column(type: CellType, name: string, ...aliases: string[]): Column {
  return { name, type, from: [name, ...aliases] }
}

/** The first of the fields that is there and not null, with its name. */
export function firstOf(record: JsonObject, fields: readonly string[]): { field: string; value: unknown } {
  for (const field of fields) {
    const value = record[field]
    if (value !== undefined && value !== null) return { field, value }
  }
  return { field: fields[0] ?? '', value: null }
}
