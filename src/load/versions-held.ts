/** The versions of records as intake_raw holds them; a record that is not there has none. */
import { sql } from 'kysely'
import type { StreamName } from '../core/streams.ts'
import { type Instant, parseInstant } from '../core/time.ts'
import type { Session } from '../warehouse/connect.ts'

export async function versionsHeld(
  { db }: Session,
  { teamId, stream }: { readonly teamId: number; readonly stream: StreamName },
  ids: readonly string[],
): Promise<ReadonlyMap<string, Instant>> {
  const { rows } = await sql<{ id: string; version: string }>`
    select id, to_char(version, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as version from intake_raw.records
    where team_id = ${teamId} and stream = ${stream} and id = any(${ids}::text[])`.execute(db)
  return new Map(rows.map(({ id, version }) => [id, parseInstant(version)!]))
}
