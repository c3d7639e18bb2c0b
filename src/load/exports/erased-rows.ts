/**
 * Rows of erased patients in the files of exports.
 *
 * Invariant: such a row is stored neither in tables nor in the bytes; only its position is, so that the other rows keep the
 * numbers of the service's own file. All other records of a rewritten file have the same cells.
 */
import { type Kysely, sql } from 'kysely'
import { FILES, PERSONS } from '../../streams/catalogue.ts'
import type { Subject } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import {
  countSkipped,
  erasedOfTeam,
  exportClient,
  exportPerson,
  openErasures,
  type SkippedRecord,
} from '../erasures.ts'
import { decodedCell } from './cell-text.ts'
import type { StoredFile } from './export-file.ts'
import { openExportText } from './export-text.ts'

/** Placeholder for an erased record: DEL occurs in no text that people or programs write. */
const ERASED_CELL = '\u007ferased\u007f'

export function isErasedRecord(cells: readonly string[]): boolean {
  return cells.length === 1 && cells[0] === ERASED_CELL
}

export interface ErasedRows {
  /** True, and counted, for a row of an erased patient; `cells` as latin1. */
  readonly isErased: (cells: readonly string[]) => boolean
  /** Erased rows so far. */
  readonly met: number
  /** Stores the counts, in the current transaction. */
  count(): Promise<void>
}

/** Null if the team has no erasures. */
export async function openErasedRows(db: Kysely<Warehouse>, teamId: number): Promise<ErasedRows | null> {
  const erasures = await openErasures(db, teamId)
  if (erasures === null) return null
  const erased = await erasedOfTeam(db, erasures)
  const skipped = new Map<string, SkippedRecord>()
  let met = 0
  return {
    get met() {
      return met
    },
    isErased(cells) {
      const hashes = subjectsOfRow(cells).map(erasures.hashOf)
      const hash = hashes.find((candidate) => erased.has(candidate))
      if (hash === undefined) return false
      const times = (skipped.get(hash)?.times ?? 0) + 1
      skipped.set(hash, { hash, patient: erased.get(hash)!, times })
      met += 1
      return true
    },
    count: () => countSkipped(db, erasures, [...skipped.values()]),
  }
}

/** The columns of `export_rows`, as their cells are in the file. */
const ROW_COLUMNS = FILES.reading.tables
  .find(({ columns }) => columns.includes('client_id'))!
  .columns.slice(1)
const NAMED_BY = PERSONS.person.same.map((name) => ROW_COLUMNS.indexOf(name))

function subjectsOfRow(cells: readonly string[]): readonly Subject[] {
  const id = decodedCell(cells[0]!)
  if (id !== '') return [{ stream: PERSONS.name, id }, exportClient(id)]
  const values = NAMED_BY.map((at) => decodedCell(cells[at] ?? ''))
  return values.includes('') ? [] : [exportPerson(values)]
}

/** Pieces of the same file with a placeholder for each erased record. Throws `MalformedFile`. */
export async function* withoutErasedRows(
  file: StoredFile,
  isErased: (cells: readonly string[], row: number) => boolean,
): AsyncGenerator<Buffer> {
  let lines = ''
  /** The header is row 0. */
  let row = 0
  const text = openExportText(file, (cells) => {
    const goes = row > 0 && !isErasedRecord(cells) && isErased(cells, row)
    lines += csvLine(goes ? [ERASED_CELL] : cells)
    row += 1
  })
  const take = () => {
    const piece = Buffer.from(file.isJsonString ? insideJson(lines) : lines, 'latin1')
    lines = ''
    return piece
  }
  if (file.isJsonString) yield Buffer.from('"')
  for (let number = 1; number <= file.chunks; number++) {
    text.write(await file.chunk(number))
    yield take()
  }
  text.end()
  yield take()
  if (file.isJsonString) yield Buffer.from('"')
}

/** All cells are quoted, so that a record of one empty cell is no blank line. */
function csvLine(cells: readonly string[]): string {
  return `${cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',')}\n`
}

/** Escapes text for a JSON string; bytes of UTF-8, as latin1, are left unchanged. */
function insideJson(text: string): string {
  return text.replace(
    /["\\\u0000-\u001f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

const CHUNK = 1024 * 1024

/** Stores the pieces as chunks of a loaded file. */
export async function storeChunks(
  db: Kysely<Warehouse>,
  { teamId, exportId }: { readonly teamId: number; readonly exportId: string },
  pieces: AsyncIterable<Buffer>,
): Promise<void> {
  let waiting: Buffer[] = []
  let size = 0
  let number = 0
  const put = async () => {
    number += 1
    await sql`
      insert into intake_raw.export_chunks (team_id, export_id, is_loaded, number, body)
      values (${teamId}, ${exportId}, true, ${number}, ${Buffer.concat(waiting, size)})`.execute(db)
    waiting = []
    size = 0
  }
  for await (const piece of pieces) {
    waiting.push(piece)
    size += piece.length
    if (size >= CHUNK) await put()
  }
  if (size > 0) await put()
}
