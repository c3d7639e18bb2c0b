/**
 * One resource of one team: rows generated on request, with an overlay of later changes.
 *
 * Invariant: an unchanged row is `make(index)` and takes no memory; memory grows only with the rows created, changed or
 * deleted at run time. Rows are listed in the order of their index, which is the order of
 * their creation, and a deletion moves every later row up by one position.
 */
import type { IdSpace } from './draw.ts'

export interface Row {
  readonly id: string
}

export interface Change<T extends Row = Row> {
  readonly type: 'created' | 'updated' | 'deleted'
  readonly id: string
  readonly index: number
  /** The row after the change; for a deletion, the last state. */
  readonly row: T
}

/** Rows in a fixed order; `scan` continues from the token that an earlier `scan` returned. */
export interface Listing<T> {
  readonly size: number
  slice(position: number, limit: number, newestFirst?: boolean): T[]
  scan(token: number, limit: number): { rows: T[]; next: number | null }
}

export class Table<T extends Row> implements Listing<T> {
  readonly ids: IdSpace
  readonly #make: (index: number) => T
  readonly #onChange: (change: Change<T>) => void
  readonly #overlay = new Map<number, T>()
  /** Indexes of deleted rows, ascending. */
  readonly #gone: number[] = []
  /** Number of rows ever created, seeded ones included. */
  #end: number

  constructor(
    ids: IdSpace,
    seeded: number,
    make: (index: number) => T,
    onChange: (change: Change<T>) => void,
  ) {
    this.ids = ids
    this.#end = seeded
    this.#make = make
    this.#onChange = onChange
  }

  /** Current number of rows. */
  get size(): number {
    return this.#end - this.#gone.length
  }

  /** The index after the greatest one ever used. */
  get end(): number {
    return this.#end
  }

  has(index: number): boolean {
    return index >= 0 && index < this.#end && this.#gone[lowerBound(this.#gone, index)] !== index
  }

  at(index: number): T | undefined {
    return this.has(index) ? (this.#overlay.get(index) ?? this.#make(index)) : undefined
  }

  get(id: string): T | undefined {
    const index = this.ids.indexOf(id)
    return index === undefined ? undefined : this.at(index)
  }

  /** Existing rows that were created or changed at run time, by index. */
  touched(): ReadonlyMap<number, T> {
    return this.#overlay
  }

  /** Index of the row at `position` (from 0) of the list; `end` if there is none. */
  indexAt(position: number): number {
    let low = 0
    let high = this.#gone.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#gone[middle]! - middle <= position) low = middle + 1
      else high = middle
    }
    return Math.min(position + low, this.#end)
  }

  /** Up to `limit` rows from `position` on; from the newest backwards when `newestFirst`. */
  slice(position: number, limit: number, newestFirst = false): T[] {
    const count = Math.max(0, Math.min(limit, this.size - position))
    if (!newestFirst) return this.#walk(this.indexAt(position), count, 1)
    return this.#walk(this.indexAt(this.size - 1 - position), count, -1)
  }

  /** Up to `limit` rows from index `token` on, and the index at which the next scan continues, for use in cursors. */
  scan(token: number, limit: number): { rows: T[]; next: number | null } {
    const rows = this.#walk(token, limit + 1, 1)
    const beyond = rows.length > limit ? rows.pop() : undefined
    return { rows, next: beyond === undefined ? null : this.ids.indexOf(beyond.id)! }
  }

  #walk(from: number, count: number, step: 1 | -1): T[] {
    const rows: T[] = []
    for (let index = from; rows.length < count && index >= 0 && index < this.#end; index += step) {
      if (this.#gone.length > 0 && !this.has(index)) continue
      rows.push(this.#overlay.get(index) ?? this.#make(index))
    }
    return rows
  }

  /** Adds the row that `build` returns for a new id, and returns it. */
  create(build: (id: string, index: number) => T): T {
    const index = this.#end
    const row = build(this.ids.idAt(index), index)
    this.#end += 1
    this.#overlay.set(index, row)
    this.#onChange({ type: 'created', id: row.id, index, row })
    return row
  }

  /** Replaces a row with `change(row)`; undefined if there is no such row. */
  update(id: string, change: (row: T) => T): T | undefined {
    const index = this.ids.indexOf(id)
    const row = index === undefined ? undefined : this.at(index)
    if (index === undefined || row === undefined) return undefined
    const changed = change(row)
    this.#overlay.set(index, changed)
    this.#onChange({ type: 'updated', id: changed.id, index, row: changed })
    return changed
  }

  /** Deletes a row and returns its last state; undefined if there was none. */
  remove(id: string): T | undefined {
    const index = this.ids.indexOf(id)
    const row = index === undefined ? undefined : this.at(index)
    if (index === undefined || row === undefined) return undefined
    this.#overlay.delete(index)
    this.#gone.splice(lowerBound(this.#gone, index), 0, index)
    this.#onChange({ type: 'deleted', id: row.id, index, row })
    return row
  }
}

/** Index of the first element that is not less than `value`. */
function lowerBound(sorted: readonly number[], value: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (sorted[middle]! < value) low = middle + 1
    else high = middle
  }
  return low
}
