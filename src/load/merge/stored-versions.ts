/** The stored versions of records, each looked up by key; records that are not stored are left out. */
import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../../core/envelope.ts'
import { type Instant, parseInstant } from '../../core/time.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface StoredVersion {
  readonly version: Instant
  readonly deleted: boolean
}

export async function storedVersions(
  db: Kysely<Warehouse>,
  { teamId, stream }: { readonly teamId: number; readonly stream: StreamName },
  ids: readonly string[],
): Promise<ReadonlyMap<string, StoredVersion>> {
  const { rows } = await sql<{ id: string; version: string; deleted: boolean }>`
    select wanted.id, to_char(version, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as version, deleted
    from (select distinct id from unnest(${ids}::text[]) as id) wanted
    cross join lateral (
      select version, deleted from intake_raw.records stored
      where team_id = ${teamId} and stream = ${stream} and stored.id = wanted.id
      offset 0
    ) current`.execute(db)
  return new Map(rows.map(({ id, version, deleted }) => [id, { version: parseInstant(version)!, deleted }]))
}
