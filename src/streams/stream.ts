/**
 * A stream: data that declares how records of one resource are keyed, read and mapped to tables. The stages (extract,
 * load, verify …) receive a stream; none of them asks which one it is.
 */
import type { PathName } from '../api/paths.ts'
import type { JsonObject } from '../core/json.ts'
import type { Problem } from '../core/problem.ts'
import type { StreamName } from '../core/streams.ts'
import type { Instant } from '../core/time.ts'
import type { Cell, CellType } from './parts/cell.ts'

/** A column and its fields: the first one that is present and not null is read. */
export interface Column {
  readonly name: string
  readonly type: CellType
  readonly from: readonly string[]
  /** Reads the cell if its value may be nested inside a field; `path` is that of the record. */
  readonly read?: (record: JsonObject, path: string, problems: Problem[]) => Cell
}

/** A table whose rows are replaced with their parent's. Keyed by team, parent and further columns. */
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
  /** By date since the checkpoint, with periodic full scans. */
  | {
      readonly kind: 'windows'
      /** Query parameter that selects records dated on a day or later. */
      readonly parameter: string
      /** Field of a record that the parameter filters. */
      readonly field: string
    }
  /** A list of files, each read as a whole. */
  | { readonly kind: 'exports' }

export interface Stream {
  readonly name: StreamName
  /** `source` of its webhook events (specification, section 6); absent if there are none. */
  readonly source?: string
  /** Name of the path that lists its records; null if only webhooks deliver them. */
  readonly list: PathName | null
  /** Key of the records in a list response, if it is not the name of the path. */
  readonly listedAs?: string
  /** Name of the path of one record by id; null if the service has none, so that no record can be proved gone. */
  readonly one: PathName | null
  /** How it is read; absent: the whole list each time. */
  readonly reading?: Reading
  /** Root table in schema `intake`, keyed by team and id. */
  readonly table: string
  readonly columns: readonly Column[]
  readonly children: readonly Child[]
  /** Fields that children read or that need no column; all other fields are unknown. */
  readonly otherFields: readonly string[]
  /**
   * True for a list entry that lacks fields of the record fetched by id, given the requested API version. Absent if lists
   * are known to contain whole records.
   */
  readonly isSummary?: (record: JsonObject, apiVersion: string) => boolean
  /**
   * True for a record in which an object stands for a list: positions follow the order of its keys, which jsonb does not
   * keep.
   */
  readonly isOrdered?: (record: JsonObject) => boolean
  /**
   * Removes values that no table may contain, not even in `intake_raw`: secrets, image bytes, the signed part of an
   * address. Applied before anything is hashed, stored or dead-lettered, so that an address that is signed anew on each
   * read makes no new version. Accepts any JSON, does not change its argument, and never throws.
   */
  readonly cleanse?: (input: unknown) => unknown
  /**
   * Present for a log: entries are written once and never deleted; several may have one id, and the latest stays. Returns
   * the time of an entry, which orders it whatever the time of reading; null if it has none.
   */
  readonly entryAt?: (record: JsonObject) => Instant | null
  /** Records of another stream that this state changed; they are fetched by id, because the state does not contain them. */
  readonly changes?: (record: JsonObject) => Related | null
}

/** True if the stream has no fetch that could order two states: then `updated_at` decides (law 2). */
export function stampsDecide({ list, one }: Stream): boolean {
  return list === null && one === null
}

export interface Related {
  readonly stream: StreamName
  readonly ids: readonly string[]
  /**
   * The time of the change, from the record: a stored record that is submitted and was read then or later needs no fetch.
   * Null if the record has none.
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

/** The first of the fields that is present and not null, with its name. */
export function firstOf(record: JsonObject, fields: readonly string[]): { field: string; value: unknown } {
  for (const field of fields) {
    const value = record[field]
    if (value !== undefined && value !== null) return { field, value }
  }
  return { field: fields[0] ?? '', value: null }
}
