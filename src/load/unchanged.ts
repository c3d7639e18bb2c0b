/**
 * Which records of a batch the warehouse does not hold already: an unchanged record costs no write (law 2).
 *
 * Invariant: a record is left out only when the newest state held is alive and has the same content hash. Legal only
 * where no other state of it is still on its way to be loaded, because the version of what is held does not move on. Of
 * a log, an entry is left out too when a later one with its id is held: its version is its own, whenever it is read.
 */
import { sql } from 'kysely'
import type { Envelope } from '../core/envelope.ts'
import type { Session } from '../warehouse/connect.ts'

export async function withoutUnchanged(
  session: Session,
  envelopes: readonly Envelope[],
  isLog = false,
): Promise<readonly Envelope[]> {
  const [first] = envelopes
  if (first === undefined) return []
  const ids = envelopes.map((envelope) => envelope.id)
  const hashes = envelopes.map((envelope) => envelope.content?.hash ?? '')
  const versions = envelopes.map((envelope) => envelope.version)
  // What is held is looked up by key first, whatever the planner thinks of the tables' sizes, and compared then.
  const { rows } = await sql<{ place: number }>`
    with held as materialized (
      select id, hash, version from intake_raw.records
      where team_id = ${first.teamId} and stream = ${first.stream} and id = any(${ids}::text[]) and not deleted
    )
    select came.place::int as place
    from unnest(${ids}::text[], ${hashes}::text[], ${versions}::timestamptz[])
      with ordinality as came (id, hash, version, place)
    left join held on held.id = came.id
    where held.hash is distinct from decode(came.hash, 'hex')
      and not (${isLog} and held.version is not null and held.version > came.version)
    order by came.place`.execute(session.db)
  return rows.map((row) => envelopes[row.place - 1]!)
}
