/**
 * A fetched file: its metadata, and its row in intake_raw.export_files.
 *
 * Invariant: a file counts as unchanged only if its hash, the API version and the time zone are those of the loaded
 * one.
 */
import { type Kysely, sql } from 'kysely'
import { canonicalText } from '../../core/canonical.ts'
import type { Problem } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Spooled } from './spool.ts'

export interface ExportFile extends Omit<Spooled, 'last'> {
  readonly exportId: string
  readonly isJsonString: boolean
  /** The requested API version; empty for none. */
  readonly apiVersion: string
  /** The zone of its times. */
  readonly timezone: string
  readonly observedAt: Instant
  readonly origin: string
}

/** The bytes of a file, in chunks. */
export interface StoredFile {
  readonly isJsonString: boolean
  readonly chunks: number
  /** A chunk by its number, from 1. */
  readonly chunk: (number: number) => Promise<Buffer>
}

/** A stored export and the file that was loaded last. */
export interface StoredExport {
  readonly origin: string
  /** SHA-256 in hex digits; null when no file is loaded. */
  readonly hash: string | null
  readonly apiVersion: string | null
  readonly timezone: string | null
  /** True if a later file could not be loaded. */
  readonly hasRejected: boolean
}

/** The stored exports that are not deleted, by id. */
export async function storedExports(
  db: Kysely<Warehouse>,
  teamId: number,
  ids: readonly string[],
): Promise<ReadonlyMap<string, StoredExport>> {
  const { rows } = await sql<StoredExport & { id: string }>`
    select entry.id, entry._origin as origin, encode(loaded.hash, 'hex') as hash,
      loaded.api_version as "apiVersion", loaded.timezone, broken.export_id is not null as "hasRejected"
    from intake.exports entry
    left join intake_raw.export_files loaded
      on loaded.team_id = entry.team_id and loaded.export_id = entry.id and loaded.is_loaded
    left join intake_raw.export_files broken
      on broken.team_id = entry.team_id and broken.export_id = entry.id and not broken.is_loaded
    where entry.team_id = ${teamId} and entry.id = any(${ids}::text[]) and entry._deleted_at is null`.execute(
    db,
  )
  return new Map(rows.map(({ id, ...stored }) => [id, stored]))
}

/** True when loading the file again would change nothing. */
export function isUnchanged(stored: StoredExport | undefined, file: ExportFile): boolean {
  return (
    stored !== undefined &&
    stored.hash === file.hash &&
    stored.apiVersion === file.apiVersion &&
    stored.timezone === file.timezone
  )
}

/** Inserts the row of a file. */
export async function storeFile(
  db: Kysely<Warehouse>,
  teamId: number,
  file: ExportFile,
  state: { readonly isLoaded: boolean; readonly problems: readonly Problem[] },
): Promise<void> {
  await db
    .insertInto('intake_raw.export_files')
    .values({
      team_id: teamId,
      export_id: file.exportId,
      is_loaded: state.isLoaded,
      hash: Buffer.from(file.hash, 'hex'),
      bytes: file.bytes,
      is_json_string: file.isJsonString,
      api_version: file.apiVersion,
      timezone: file.timezone,
      observed_at: file.observedAt,
      origin: file.origin,
      problems: state.problems.length === 0 ? null : canonicalText(state.problems),
    })
    .execute()
}

/** Deletes a file with its chunks; without `isLoaded`, the loaded and the rejected one. */
export async function dropFiles(
  db: Kysely<Warehouse>,
  place: { readonly teamId: number; readonly exportId: string },
  isLoaded?: boolean,
): Promise<void> {
  const both = db
    .deleteFrom('intake_raw.export_files')
    .where('team_id', '=', place.teamId)
    .where('export_id', '=', place.exportId)
  await (isLoaded === undefined ? both : both.where('is_loaded', '=', isLoaded)).execute()
}
