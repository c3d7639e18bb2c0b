/**
 * Which records of a batch the warehouse does not hold already: an unchanged record costs no write (law 2).
 *
 * Invariant: a record is left out only when the newest state held is alive and has the same content hash. Legal only
 * where no other state of it is still on its way to be loaded, because the version of what is held does not move on.
 */
import { sql } from 'kysely'
import type { Envelope } from '../core/envelope.ts'
import type { Session } from '../warehouse/connect.ts'

export async function withoutUnchanged(
  session: Session,
  envelopes: readonly Envelope[],
): Promise<readonly Envelope[]> {
  const [first] = envelopes
  if (first === undefined) return []
  const ids = envelopes.map((envelope) => envelope.id)
  const hashes = envelopes.map((envelope) => envelope.content?.hash ?? '')
  const { rows } = await sql<{ place: string }>`
    select came.place::int as place
    from unnest(${ids}::text[], ${hashes}::text[]) with ordinality as came (id, hash, place)
    left join intake_raw.records held
      on held.team_id = ${first.teamId} and held.stream = ${first.stream} and held.id = came.id
    where held.id is null or held.deleted or held.hash <> decode(came.hash, 'hex')`.execute(session.db)
  return rows.map((row) => envelopes[Number(row.place) - 1]!)
}
