/**
 * Removes the unchanged records of a batch: an unchanged record costs no write (law 2).
 *
 * Invariant: a record is skipped only if the stored record is not deleted and has the same content hash, and no event
 * of it is pending: skipping does not advance the stored version, and the event may contain an older state than this
 * one. In a log, an entry is also skipped if it is older than those that retention removed (intake_ops.pruned_logs), or
 * if a later entry with its id is stored: its version is its own time, whatever the time of reading. An entry that
 * changed under the same version, or has no time, gets a version above the one that an earlier run stored, whatever the
 * clocks show: runs of a stream follow one another, and entries cannot be fetched by id.
 */
import { type Kysely, sql } from 'kysely'
import type { Envelope, StreamName } from '../../core/envelope.ts'
import { type Instant, instantOf, laterOf, microsOf, parseInstant } from '../../core/time.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** An entry of a log without a time has an earlier version, and does not expire. */
export const MIN_ENTRY_TIME = '2000-01-01'

export async function withoutUnchanged(
  session: Session,
  stream: Stream,
  envelopes: readonly Envelope[],
): Promise<readonly Envelope[]> {
  const isLog = stream.entryAt !== undefined
  const [first] = envelopes
  if (first === undefined) return []
  const ids = envelopes.map((envelope) => envelope.id)
  const hashes = envelopes.map((envelope) => envelope.content?.hash ?? '')
  const versions = envelopes.map((envelope) => envelope.version)
  const observed = envelopes.map((envelope) => envelope.observedAt)
  const runPrefix = first.origin.replace(/ .*$/s, ' ')
  // Before the stored records are read: if an event is loaded in between, its result is seen there.
  const pending = await idsInInbox(session, stream, first.teamId, ids)
  // Looks up each record by key, independent of statistics: a join might read the whole stream.
  const { rows } = await sql<{ place: number; before: Instant | null }>`
    select incoming.place::int as place,
      case when ${isLog} and not current.is_own and incoming.version in (current.version, incoming.observed)
        then to_char(greatest(current.version, current.observed_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end as before
    from unnest(${ids}::text[], ${hashes}::text[], ${versions}::timestamptz[], ${observed}::timestamptz[])
      with ordinality as incoming (id, hash, version, observed, place)
    left join lateral (
      select hash, version, observed_at, starts_with(origin, ${runPrefix}) as is_own from intake_raw.records stored
      where team_id = ${first.teamId} and stream = ${first.stream} and stored.id = incoming.id and not deleted
      offset 0
    ) current on true
    where (current.hash is distinct from decode(incoming.hash, 'hex') or incoming.id = any (${pending}::text[]))
      and not (${isLog} and current.version is not null and current.version > incoming.version
        and (current.is_own or incoming.version <> incoming.observed))
      and not (${isLog} and incoming.version > ${sql.lit(MIN_ENTRY_TIME)} and incoming.version < (
        select before from intake_ops.pruned_logs where team_id = ${first.teamId} and stream = ${first.stream}
      ) is true)
    order by incoming.place`.execute(session.db)
  return rows.map(({ place, before }) => {
    const envelope = envelopes[place - 1]!
    return before === null ? envelope : after(before, envelope)
  })
}

/** The same state with `observedAt` after `before`, and its version if that is the time of reading. */
function after(before: Instant, envelope: Envelope): Envelope {
  const observedAt = laterOf(envelope.observedAt, instantOf(microsOf(before) + 1))
  const version = envelope.version === envelope.observedAt ? observedAt : envelope.version
  return { ...envelope, observedAt, version }
}

const ANY_PENDING = `
  select min(record_id) is not null as pending from intake_raw.inbox
  where status = 'pending' and team_id = $1 and source = $2`

/**
 * Looks up each id by key, where the team has pending events of the source at all: for a join the planner might read all
 * pending events.
 */
export const PENDING_OF_RECORDS = `
  select page.id from unnest($3::text[]) as page (id)
  cross join lateral (
    select from intake_raw.inbox
    where status = 'pending' and team_id = $1 and source = $2 and record_id = page.id
    limit 1
  ) as pending
  where (
    select min(record_id) from intake_raw.inbox where status = 'pending' and team_id = $1 and source = $2
  ) is not null`

/**
 * The ids with a pending event. Events without a record id do not count: the ingester reads ids as the drain does, so the
 * drain will find none either.
 */
async function idsInInbox(
  { client }: Session,
  { source }: Stream,
  teamId: number,
  ids: readonly string[],
): Promise<readonly string[]> {
  if (source === undefined) return []
  const any = await client.query<{ pending: boolean }>({
    name: 'pending events of a source',
    text: ANY_PENDING,
    values: [teamId, source],
  })
  if (!any.rows[0]!.pending) return []
  const { rows } = await client.query<{ id: string }>({
    name: 'pending events of records',
    text: PENDING_OF_RECORDS,
    values: [teamId, source, ids],
  })
  return rows.map(({ id }) => id)
}

/** A record with the content hash of the state that was read. */
export interface HashedRecord {
  readonly id: string
  readonly hash: string
}

/** The records of `records`, as their places, that are not stored with their hash, or have a pending event. */
export async function placesChanged(
  session: Session,
  stream: Stream,
  teamId: number,
  records: readonly HashedRecord[],
): Promise<readonly number[]> {
  const ids = records.map(({ id }) => id)
  const pending = await idsInInbox(session, stream, teamId, ids)
  // One text and one string of bytes: Postgres takes longer to read an array.
  const { rows } = await session.client.query<{ place: number }>({
    name: 'records with these hashes',
    text: WITH_OTHER_HASHES,
    values: [
      teamId,
      stream.name,
      ids.join('\n'),
      Buffer.from(records.map(({ hash }) => hash).join(''), 'hex'),
      pending,
    ],
  })
  return rows.map(({ place }) => place - 1)
}

const WITH_OTHER_HASHES = `
  select incoming.place::int as place
  from unnest(string_to_array($3, E'\\n')) with ordinality as incoming (id, place)
  left join lateral (
    select hash from intake_raw.records stored
    where team_id = $1 and stream = $2 and stored.id = incoming.id and not deleted
    offset 0
  ) current on true
  where current.hash is distinct from substring($4::bytea from (incoming.place * 16 - 15)::int for 16)
    or incoming.id = any ($5::text[])`

export interface StoredVersion {
  readonly version: Instant
  readonly deleted: boolean
}

/** The stored versions of records, each looked up by key; records that are not stored are left out. */
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
