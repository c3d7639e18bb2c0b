/**
 * The key of the pseudonyms: generated with the schema, or INTAKE_ANALYTICS_KEY.
 *
 * Invariant: the key itself is never stored, only the two blocks that HMAC makes of it; a configured key that is the
 * one in use changes nothing, another one changes every pseudonym.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'

/** Sets the configured key. Returns a note if the pseudonyms changed; else null. */
export async function useAnalyticsKey(db: Kysely<Warehouse>, key: string): Promise<string | null> {
  const { rows } = await sql<{ named: boolean }>`
    with wanted as (
      select intake_ops.hmac_pad(${Buffer.from(key)}, 54) as inner_pad, intake_ops.hmac_pad(${Buffer.from(key)}, 92) as outer_pad
    )
    update intake_ops.analytics_key own
    set inner_pad = wanted.inner_pad, outer_pad = wanted.outer_pad, origin = 'configured', set_at = now()
    from wanted
    where own.inner_pad <> wanted.inner_pad
    returning exists (select from intake.patients) as named`.execute(db)
  return rows[0]?.named
    ? 'INTAKE_ANALYTICS_KEY is another than before: every pseudonym in intake_analytics changed'
    : null
}
