/**
 * Who was erased, as a load has to know it: keyed hashes of ids, looked up within the load's own transaction.
 *
 * Invariant: `openErasures` keeps a new erasure of the team from being noted until the transaction ends, so that every
 * load either committed before an erasure was noted, and is swept by it, or knows of it. It costs one statement where
 * nobody of the team was erased; no team waits for another's erasures, nor checks its records because of them. No id is
 * stored, and none can be told from what is.
 */
import { createHmac } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Subject } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface Erasures {
  readonly teamId: number
  hashOf(subject: Subject): string
}

/**
 * First half of the key of the advisory lock that loads of a team share (in `hold_erasures`) and the noting of an erasure
 * takes alone; the second half is the team.
 */
const LOCK = 7_204_315

/** What a transaction has to know of the team's erasures; null where nobody was erased. */
export async function openErasures(db: Kysely<Warehouse>, teamId: number): Promise<Erasures | null> {
  return (await openErasuresOf(db, [teamId])).get(teamId) ?? null
}

/** The same of several teams, in one statement; teams in which nobody was erased are left out. */
export async function openErasuresOf(
  db: Kysely<Warehouse>,
  teamIds: readonly number[],
): Promise<ReadonlyMap<number, Erasures>> {
  if (teamIds.length === 0) return new Map()
  const { rows } = await sql<{ teamId: number; key: Buffer | null }>`
    select team_id as "teamId", intake_ops.hold_erasures(team_id) as key
    from unnest(${[...teamIds]}::smallint[]) as asked (team_id)`.execute(db)
  return new Map(
    rows.flatMap(({ teamId, key }) => (key === null ? [] : [[teamId, erasuresUnder(key, teamId)] as const])),
  )
}

function erasuresUnder(key: Buffer, teamId: number): Erasures {
  return {
    teamId,
    hashOf: ({ stream, id }) => createHmac('sha256', key).update(`${teamId}\n${stream}\n${id}`).digest('hex'),
  }
}

/** For whoever erases: the hashes of a team, whether somebody was erased before or not. */
export async function hashesOf(db: Kysely<Warehouse>, teamId: number): Promise<Erasures> {
  const { rows } = await sql<{ key: Buffer }>`select key from intake_ops.erasure_key`.execute(db)
  return erasuresUnder(rows[0]!.key, teamId)
}

/** Of these hashes those that are erased, each with its patient's. */
export async function erasedAmong(
  db: Kysely<Warehouse>,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (hashes.length === 0) return new Map()
  const { rows } = await sql<{ hash: string; patient: string }>`
    with asked as materialized (select distinct decode(hash, 'hex') as hash from unnest(${hashes}::text[]) as came (hash))
    select encode(erased.hash, 'hex') as hash, encode(erased.patient_hash, 'hex') as patient
    from asked join intake_ops.erasures erased using (hash)`.execute(db)
  return new Map(rows.map(({ hash, patient }) => [hash, patient]))
}

/** All of a team, each with its patient's, for rows that come by the million. */
export async function allErased(
  db: Kysely<Warehouse>,
  { teamId }: Erasures,
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<{ hash: string; patient: string }>`
    select encode(hash, 'hex') as hash, encode(patient_hash, 'hex') as patient from intake_ops.erasures
    where team_id = ${teamId}`.execute(db)
  return new Map(rows.map(({ hash, patient }) => [hash, patient]))
}

/** How exports name a patient, where that is not the patient's id. */
export function clientCalled(name: string): Subject {
  return { stream: 'exports', id: `client ${name}` }
}

export interface Skipped {
  readonly hash: string
  readonly patient: string
  readonly times: number
}

/**
 * Counts what was skipped, and notes the records that were not known to be of an erased patient: what else is told of
 * them later may not name the patient.
 */
export async function countSkipped(
  db: Kysely<Warehouse>,
  { teamId }: Erasures,
  skipped: readonly Skipped[],
): Promise<void> {
  if (skipped.length === 0) return
  // Sorted, so that two loads that skip the same wait for each other and never deadlock.
  const sorted = [...skipped].sort((a, b) => (a.hash < b.hash ? -1 : 1))
  await sql`
    insert into intake_ops.erasures as known (hash, patient_hash, team_id, skipped, last_skipped_at)
    select decode(hash, 'hex'), decode(patient, 'hex'), ${teamId}, times, now()
    from unnest(${sorted.map((each) => each.hash)}::text[], ${sorted.map((each) => each.patient)}::text[],
      ${sorted.map((each) => each.times)}::bigint[]) as came (hash, patient, times)
    order by 1
    on conflict (hash) do update set skipped = known.skipped + excluded.skipped, last_skipped_at = now()`.execute(
    db,
  )
}

/** Notes records as erased, alone: no load is under way that does not know of them once this has committed. */
export async function noteErased(
  db: Kysely<Warehouse>,
  erasures: Erasures,
  patient: string,
  subjects: readonly Subject[],
): Promise<number> {
  const patientHash = erasures.hashOf({ stream: 'patients', id: patient })
  const hashes = subjects.map(erasures.hashOf).sort()
  return await db.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${LOCK}::int, ${erasures.teamId}::int)`.execute(transaction)
    const { numAffectedRows } = await sql`
      insert into intake_ops.erasures (hash, patient_hash, team_id)
      select decode(hash, 'hex'), decode(${patientHash}, 'hex'), ${erasures.teamId}
      from unnest(${hashes}::text[]) as came (hash)
      order by 1
      on conflict do nothing`.execute(transaction)
    return Number(numAffectedRows ?? 0n)
  })
}
