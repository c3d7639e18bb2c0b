/**
 * Stores the result of a verification in intake_ops.verifications.
 *
 * Invariant: it stores ids and names of columns, no value.
 */
import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../../core/envelope.ts'
import { FILES } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Channels } from './channels.ts'
import { isEqual, type StreamVerified } from './verify-stream.ts'

export async function storeVerified(
  db: Kysely<Warehouse>,
  key: { readonly runId: string; readonly teamId: number; readonly stream: StreamName },
  verified: StreamVerified,
): Promise<void> {
  const { missing, extra, different, sums, repaired, newer, notDue, payloadsOnly, note } = verified
  await sql`
    insert into intake_ops.verifications (
      run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
      missing_ids, extra_ids, different_ids, payloads_only, newer, source_hash, warehouse_hash, source_content_hash,
      warehouse_content_hash, note
    ) values (
      ${key.runId}, ${key.teamId}, ${key.stream}, ${isEqual(verified)}, ${sums.source}, ${sums.warehouse},
      ${missing.length}, ${extra.length}, ${different.length}, ${repaired},
      ${missing}::text[], ${extra}::text[], ${JSON.stringify(different)}::jsonb, ${payloadsOnly}, ${newer + notDue},
      ${sums.sourceHash}, ${sums.warehouseHash}, ${sums.sourceContentHash}, ${sums.warehouseContentHash}, ${note}
    )`.execute(db)
}

/** Adds to the verification of the team's exports. */
export async function storeChannels(
  db: Kysely<Warehouse>,
  { runId, teamId }: { readonly runId: string; readonly teamId: number },
  channels: Channels,
): Promise<void> {
  await sql`
    update intake_ops.verifications set deep = ${JSON.stringify(channels)}::jsonb
    where run_id = ${runId} and team_id = ${teamId} and stream = ${FILES.name}`.execute(db)
}

/** Removes these responses from the stored differences of earlier comparisons. */
export async function forgetResponses(
  db: Kysely<Warehouse>,
  teamId: number,
  all: readonly string[],
): Promise<void> {
  const ids = sql`${[...all]}::text[]`
  await sql`
    update intake_ops.verifications set deep = jsonb_set(deep, '{differences}', coalesce((
      select jsonb_agg(listed order by place)
      from jsonb_array_elements(deep -> 'differences') with ordinality as each (listed, place)
      where coalesce(listed ->> 'response_id', '') <> all(${ids})
    ), '[]'))
    where team_id = ${teamId} and exists (
      select from jsonb_array_elements(deep -> 'differences') as listed where listed ->> 'response_id' = any(${ids})
    )`.execute(db)
}
