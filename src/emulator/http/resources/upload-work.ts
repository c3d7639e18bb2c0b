/**
 * Batch uploads of one team: their progress, and their processing in the background.
 *
 * Invariant: the counts of an upload only grow until it is completed; success_count and error_count add up to
 * processed_rows, and every refused row is among the errors. The newest 1,000 uploads are kept.
 */
import type { Key } from '../../world/draw.ts'
import { IdSpace } from '../../world/draw.ts'
import type { World } from '../../world/world.ts'
import type { Sheet } from './upload-file.ts'
import { readRow } from './upload-file.ts'

export interface Upload {
  readonly id: string
  status: 'processing' | 'completed'
  readonly total_rows: number
  processed_rows: number
  success_count: number
  error_count: number
  /** Rows are counted from 1, the header left out. */
  readonly errors: { readonly row: number; readonly detail: string }[]
}

const REMEMBERED = 1000

export class Uploads {
  readonly ids: IdSpace
  /** By the number of the upload, oldest first. */
  readonly #kept = new Map<number, Upload>()
  #made = 0

  constructor(key: Key) {
    this.ids = new IdSpace(key)
  }

  /** Adds an upload and removes the oldest beyond the limit, whose rows are still processed. */
  open(total_rows: number): Upload {
    const upload: Upload = {
      ...{ id: this.ids.idAt(this.#made), status: 'processing', total_rows, processed_rows: 0 },
      ...{ success_count: 0, error_count: 0, errors: [] },
    }
    this.#kept.set(this.#made, upload)
    this.#kept.delete(this.#made - REMEMBERED)
    this.#made += 1
    return upload
  }

  get(id: string): Upload | undefined {
    const index = this.ids.indexOf(id)
    return index === undefined ? undefined : this.#kept.get(index)
  }
}

/** Rows per slice, and microseconds of the service's time between slices. */
const SLICE = 200
const PAUSE = 50_000

/** Creates the patients of `sheet` slice by slice. */
export function workUpload(world: World, upload: Upload, sheet: Sheet): void {
  const begun = world.clock.elapsed()
  const setSlice = (slice: number) =>
    world.timeline.at(begun + slice * PAUSE, () => {
      workSlice(world, upload, sheet)
      if (upload.processed_rows < upload.total_rows) setSlice(slice + 1)
      else upload.status = 'completed'
    })
  setSlice(1)
}

function workSlice(world: World, upload: Upload, { columns, rows, isUtf8 }: Sheet): void {
  const end = Math.min(upload.processed_rows + SLICE, upload.total_rows)
  while (upload.processed_rows < end) {
    const read = readRow(columns, rows[upload.processed_rows]!, isUtf8)
    upload.processed_rows += 1
    if ('fields' in read) {
      const now = world.now()
      world.patients.create((id) => ({ id, ...read.fields, created_at: now, updated_at: now }))
      upload.success_count += 1
    } else {
      upload.errors.push({ row: upload.processed_rows, detail: read.detail })
      upload.error_count += 1
    }
  }
}
