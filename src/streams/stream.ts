/**
 * What a stream is: data that says how a record of one resource is keyed, read and laid into tables. The stages
 * (extract, load, verify …) are given a stream; none of them asks which one it is.
 */
import type { PathName } from '../api/paths.ts'
import type { JsonObject } from '../core/json.ts'
import type { Problem } from '../core/problem.ts'
import type { StreamName } from '../core/streams.ts'
import type { Instant } from '../core/time.ts'
import type { Cell, CellType } from './parts/cell.ts'

/** A column and the fields it may be read from: the first that is there and not null. */
export interface Column {
  readonly name: string
  readonly type: CellType
  readonly from: readonly string[]
  /** Reads the cell where its value may stand inside one of the fields, and not in it; `path` is that of the record. */
  readonly read?: (record: JsonObject, path: string, problems: Problem[]) => Cell
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

export type Reading =
  | { readonly kind: 'list' }
  /** By date since the checkpoint, and its whole list now and then. */
  | {
      readonly kind: 'windows'
      /** Query parameter that asks for what is dated on a day or later. */
      readonly parameter: string
      /** Field of a record that the parameter goes by. */
      readonly field: string
    }
  /** A list of files, each read as a whole. */
  | { readonly kind: 'exports' }

export interface Stream {
  readonly name: StreamName
  /** What webhook events call its records (specification, section 6); absent where no event tells of them. */
  readonly source?: string
  /** Path of the API's table that lists its records; null where only webhooks bring them. */
  readonly list: PathName | null
  /** What an envelope that is named after its resource calls them, where that is not the path's name. */
  readonly listedAs?: string
  /** Path of one record by id; null where the service has none, and nothing can be proved gone. */
  readonly one: PathName | null
  /** How it is read; its whole list each time when nothing is said. */
  readonly reading?: Reading
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
  /**
   * True for a record in which an object stands for a list, so that positions are told by the order of its keys, which
   * jsonb does not keep.
   */
  readonly isOrdered?: (record: JsonObject) => boolean
  /**
   * Leaves out of what came what no table may hold, raw ones included: secrets, image bytes, the signed part of an
   * address. It is applied before anything is hashed, stored or set aside, so that an address that is signed anew at
   * each read makes no new version. Takes any JSON, changes nothing that it is given, and never throws.
   */
  readonly cleanse?: (came: unknown) => unknown
  /**
   * Given for a log: entries are written once, never deleted, and several may bear one id, of which the latest stays.
   * The moment of an entry, which orders it whenever it is read; null where it tells none.
   */
  readonly entryAt?: (record: JsonObject) => Instant | null
  /** Records of another stream that this state changed without telling how: they are asked for by their ids. */
  readonly changes?: (record: JsonObject) => Related | null
}

/** True where no fetch can decide which of two states is the later one: the records' own stamps do (law 2). */
export function stampsDecide({ list, one }: Stream): boolean {
  return list === null && one === null
}

export interface Related {
  readonly stream: StreamName
  readonly ids: readonly string[]
  /**
   * When they changed, as the record says: one that is held as submitted and was read then or later needs no asking.
   * Null where it says nothing.
   */
  readonly since: Instant | null
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
