/**
 * The type of a stream: data that declares how records of one resource are keyed, read and mapped to tables.
 *
 * Invariant: the stages (extract, load, verify …) receive a stream; none of them checks which one it is.
 */
import type { Endpoint } from '../api/paths.ts'
import type { Problem, StreamName } from '../core/envelope.ts'
import type { JsonObject } from '../core/json.ts'
import type { Instant } from '../core/time.ts'
import type { Cell, CellType } from './parts/cell.ts'

/** A column and its fields: the first one that is present and not null is read. */
export interface Column {
  readonly name: string
  readonly type: CellType
  readonly from: readonly string[]
  /** The stream whose records the cell names by id. */
  readonly to?: StreamName
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
  /** The streams whose records its columns name by id. */
  readonly references?: { readonly [column: string]: StreamName }
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
  /** A list of files, each read as a whole (extract/reading, load/exports). */
  | {
      readonly kind: 'files'
      /** The stream whose records the rows of a file repeat. */
      readonly rowsOf: StreamName
      /** Their tables in schema `intake`, keyed by team, id of the file and `key`. */
      readonly tables: readonly FileTable[]
    }

export interface FileTable {
  readonly table: string
  readonly key: readonly string[]
  /** Columns after team and id, in the order of their lines. */
  readonly columns: readonly string[]
}

/** What analysts see of a stream. */
export type Analysts =
  /** Views of sql/views, where values need more than being shown: a birth date becomes a year. */
  | { readonly views: readonly string[] }
  /** Columns of the root table, shown as they are in `intake_analytics.<table>`; the migration makes that view. */
  | { readonly columns: readonly string[] }
  /** Nothing: it describes the service, not its patients, and is not in `freshness` either. */
  | 'nothing'

export interface Stream {
  readonly name: StreamName
  /** `source` of its webhook events (specification, section 6); absent if there are none. */
  readonly source?: string
  /** True for a source that the specification does not list: its silence is no sign of a fault. */
  readonly sourceIsGuess?: boolean
  /** The path that lists its records; null if only webhooks deliver them. */
  readonly list: Endpoint | null
  /** Key of the records in a list response, if it is not the name of the stream. */
  readonly listedAs?: string
  /** The path of one record, with `{id}`; null if the service has none, so that no record can be proved gone. */
  readonly one: Endpoint | null
  /** How it is read; absent: the whole list each time. */
  readonly reading?: Reading
  /** Root table in schema `intake`, keyed by team and id. */
  readonly table: string
  readonly columns: readonly Column[]
  readonly children: readonly Child[]
  /** Fields that children read or that need no column; all other fields are unknown. */
  readonly otherFields: readonly string[]
  /**
   * Names of fields below the top-level ones, which paths in logs, problems and drift may contain; any other name may be
   * data, and becomes `*`.
   */
  readonly safeNames?: readonly string[]
  /** Fields whose keys are data, each with the names that may stand at the end of a path below it. */
  readonly freeMaps?: { readonly [field: string]: readonly string[] }
  /** Returns a path without data if it needs rules of its own, else null. Called with any path; idempotent. */
  readonly safePath?: (path: string) => string | null
  /** Top-level fields that are objects with fixed names, besides references: `explain` names what changed in them. */
  readonly objects?: readonly string[]
  /**
   * Present if its records are persons, whose data `erase` removes: the records of every stream that names one, and the rows
   * of files. Files may call a person by another id: by one of the columns `alias`, or anything if all of `same` are equal.
   * `contacts` reach a person, so that they identify one wherever they are.
   */
  readonly person?: {
    readonly alias: readonly string[]
    readonly same: readonly string[]
    readonly contacts: readonly string[]
  }
  readonly analysts: Analysts
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
  /** Field that is true once a record includes the change that `Related.since` dates. */
  readonly settledBy?: string
}

/** True if the stream has no fetch that could order two states: then `updated_at` decides (law 2). */
export function stampsDecide({ list, one }: Stream): boolean {
  return list === null && one === null
}

/** SQL, as in intake_ops.keep_newest: a row's own time, or its version where its table has none. */
export function ownTimeOf({ columns }: Stream): string {
  const own = ['updated_at', 'created_at'].filter((each) => columns.some(({ name }) => name === each))
  return own.length === 0 ? '_version' : `greatest(${own.join(', ')}, _deleted_at)`
}

/** True for a record without any field but its id: it says nothing, so it must not replace values (law 4). */
export function isIdAlone(record: JsonObject): boolean {
  for (const field in record) if (field !== 'id' && field !== 'uid') return false
  return true
}

/** True for a record that lacks fields of the record fetched by id, whatever is stored: an id alone, or a summary. */
export function isPartial(stream: Stream, record: JsonObject, apiVersion: string): boolean {
  return isIdAlone(record) || stream.isSummary?.(record, apiVersion) === true
}

export interface Related {
  readonly stream: StreamName
  readonly ids: readonly string[]
  /**
   * The time of the change, from the record: a stored record that was read then or later, and whose `settledBy` is true,
   * needs no fetch. Null if the record has none.
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

/** A column with the id of a record of another stream: bare, or in an object. */
export function reference(name: string, to: StreamName, ...aliases: string[]): Column {
  return { name, type: 'reference', from: [name, ...aliases], to }
}

/** The first of the fields that is present and not null, with its name. */
export function firstOf(record: JsonObject, fields: readonly string[]): { field: string; value: unknown } {
  for (const field of fields) {
    const value = record[field]
    if (value !== undefined && value !== null) return { field, value }
  }
  return { field: fields[0] ?? '', value: null }
}
