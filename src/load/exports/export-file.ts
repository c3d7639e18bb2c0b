/** A file that was fetched: what is told of it beside its bytes, and what of it is kept in intake_raw.export_files. */
import { type Kysely, sql } from 'kysely'
import { canonicalText } from '../../core/canonical.ts'
import type { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Spooled } from './spool.ts'

export interface ExportFile extends Omit<Spooled, 'last'> {
  readonly exportId: string
  readonly isJsonString: boolean
  /** The version it was asked for with; empty for none. */
  readonly apiVersion: string
  /** The zone that its times are in. */
  readonly timezone: string
  readonly observedAt: Instant
  readonly origin: string
}

/** What is held of an export, and of the file that was loaded last. */
export interface StoredExport {
  readonly origin: string
  /** SHA-256 in hex digits; null when no file is loaded. */
  readonly hash: string | null
  readonly apiVersion: string | null
  readonly timezone: string | null
  /** True when a later file is set aside. */
  readonly hasRejected: boolean
}

/** Those of the exports that are held alive, by id. */
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
  return new Map(rows.map(({ id, ...held }) => [id, held]))
}

/** True when loading the file again would change nothing. */
export function isUnchanged(held: StoredExport | undefined, file: ExportFile): boolean {
  return (
    held !== undefined &&
    held.hash === file.hash &&
    held.apiVersion === file.apiVersion &&
    held.timezone === file.timezone
  )
}

/** Writes the file's row, in place of those of `replacing`. */
export async function keepFile(
  db: Kysely<Warehouse>,
  teamId: number,
  file: ExportFile,
  kept: { readonly isLoaded: boolean; readonly problems: readonly Problem[] },
): Promise<void> {
  await db
    .insertInto('intake_raw.export_files')
    .values({
      team_id: teamId,
      export_id: file.exportId,
      is_loaded: kept.isLoaded,
      hash: Buffer.from(file.hash, 'hex'),
      bytes: file.bytes,
      is_json_string: file.isJsonString,
      api_version: file.apiVersion,
      timezone: file.timezone,
      observed_at: file.observedAt,
      origin: file.origin,
      problems: kept.problems.length === 0 ? null : canonicalText(kept.problems),
    })
    .execute()
}

/** Forgets a file with its chunks; both of the export's where none is named. */
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
