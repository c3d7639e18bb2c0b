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

export interface ComparedEnvelope extends Envelope {
  /** True if the record is not stored, not even as deleted. */
  readonly isNew: boolean
}

export async function withoutUnchanged(
  { client }: Session,
  { name, source, entryAt }: Stream,
  envelopes: readonly Envelope[],
): Promise<readonly ComparedEnvelope[]> {
  const [first] = envelopes
  if (first === undefined) return []
  const runPrefix = first.origin.replace(/ .*$/s, ' ')
  const { rows } = await client.query<{ place: number; is_new: boolean; before: Instant | null }>({
    name: 'changed records',
    text: CHANGED_OR_PENDING,
    values: [
      ...[first.teamId, name, source ?? null],
      envelopes.map(({ id }) => id),
      envelopes.map(({ content }) => content?.hash ?? ''),
      envelopes.map(({ version }) => version),
      envelopes.map(({ observedAt }) => observedAt),
      ...[runPrefix, entryAt !== undefined],
    ],
  })
  return rows.map(({ place, is_new: isNew, before }) => {
    const envelope = envelopes[place - 1]!
    return { ...(before === null ? envelope : after(before, envelope)), isNew }
  })
}

/** The same state with `observedAt` after `before`, and its version if that is the time of reading. */
function after(before: Instant, envelope: Envelope): Envelope {
  const observedAt = laterOf(envelope.observedAt, instantOf(microsOf(before) + 1))
  const version = envelope.version === envelope.observedAt ? observedAt : envelope.version
  return { ...envelope, observedAt, version }
}

/**
 * Looks up each row of `incoming` by key, as the stored record is looked up: for a join the planner might read all pending
 * events, or the whole stream. One statement reads both, and in its snapshot an event is pending or its result is stored.
 * Events without a record id do not count: the ingester reads ids as the drain does, so the drain will find none either.
 */
const PENDING = `
  left join lateral (
    select true as is_pending from intake_raw.inbox
    where status = 'pending' and team_id = $1 and source = $3 and record_id = incoming.id and (
      select min(record_id) from intake_raw.inbox where status = 'pending' and team_id = $1 and source = $3
    ) is not null
    limit 1
  ) pending on true`

/** `$9`: whether the stream is a log. */
export const CHANGED_OR_PENDING = `
  select incoming.place::int as place, current.version is null as is_new,
    case when $9::boolean and not current.is_own and incoming.version in (current.version, incoming.observed)
      then to_char(greatest(current.version, current.observed_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end as before
  from unnest($4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
    with ordinality as incoming (id, hash, version, observed, place)
  left join lateral (
    select case when not deleted then hash end as hash, version, observed_at, starts_with(origin, $8) as is_own
    from intake_raw.records stored
    where team_id = $1 and stream = $2 and stored.id = incoming.id
    offset 0
  ) current on true
  ${PENDING}
  where (current.hash is distinct from decode(incoming.hash, 'hex') or is_pending)
    and not ($9 and current.version is not null and current.version > incoming.version
      and (current.is_own or incoming.version <> incoming.observed))
    and not ($9 and incoming.version > '${MIN_ENTRY_TIME}' and incoming.version < (
      select before from intake_ops.pruned_logs where team_id = $1 and stream = $2
    ) is true)
  order by incoming.place`

/** A record with the content hash of the state that was read. */
export interface HashedRecord {
  readonly id: string
  readonly hash: string
}

/** The records of `records`, as their places, that are not stored with their hash, or have a pending event. */
export async function placesChanged(
  { client }: Session,
  { name, source }: Stream,
  teamId: number,
  records: readonly HashedRecord[],
): Promise<readonly number[]> {
  // One text and one string of bytes: Postgres takes longer to read an array.
  const ids = records.map(({ id }) => id).join('\n')
  const hashes = Buffer.from(records.map(({ hash }) => hash).join(''), 'hex')
  const { rows } = await client.query<{ place: number }>({
    name: 'records with these hashes',
    text: OTHER_OR_PENDING,
    values: [teamId, name, source ?? null, ids, hashes],
  })
  return rows.map(({ place }) => place - 1)
}

export const OTHER_OR_PENDING = `
  select incoming.place::int as place
  from unnest(string_to_array($4, E'\\n')) with ordinality as incoming (id, place)
  left join lateral (
    select hash from intake_raw.records stored
    where team_id = $1 and stream = $2 and stored.id = incoming.id and not deleted
    offset 0
  ) current on true
  ${PENDING}
  where current.hash is distinct from substring($5::bytea from (incoming.place * 16 - 15)::int for 16)
    or is_pending`

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
