/**
 * Records to fetch by id, because only the service knows their newest state (intake_ops.refetches).
 *
 * Invariant: a record has one row, however many events request it; a request during a fetch is not lost,
 * because settling a row names the count of requests that it covers. Rows are written in the order of their keys.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { StreamName } from '../core/envelope.ts'
import { type Instant, laterOf } from '../core/time.ts'
import { ALL_STREAMS } from '../streams/catalogue.ts'
import type { Warehouse } from '../warehouse/tables.ts'

/**
 * - 'contested': a conflict: an event lost to, or tied with, different content.
 * - 'partial': an event did not contain the whole record.
 * - 'member': changed by the submission of its packet.
 */
export type RefetchReason = 'contested' | 'partial' | 'member'

export interface RefetchRequest {
  readonly teamId: number
  readonly stream: StreamName
  readonly id: string
  readonly reason: RefetchReason
  /** Of the event that requests it. */
  readonly origin: string
  /** For a member: if the stored record includes the change of this time, it is not fetched. */
  readonly since: Instant | null
}

/**
 * Milliseconds before a record is fetched. The bound of the service's clock may be a second early, so that the answer to an
 * immediate request would lose to the event that requests it; and events of members arrive shortly after.
 */
const pauseOf = (reason: RefetchReason): number => (reason === 'partial' ? 0 : 1_000)

/** In order of precedence. */
const REASONS: readonly RefetchReason[] = ['contested', 'partial', 'member']

/** Stores the records to fetch, within the current transaction. Returns their number. */
export async function requestRefetches(
  db: Kysely<Warehouse>,
  requests: readonly RefetchRequest[],
): Promise<number> {
  const rows = [...withoutRepeats(requests)]
  if (rows.length === 0) return 0
  const { numAffectedRows } = await sql`
    insert into intake_ops.refetches as refetch (team_id, stream, id, reason, origin, since, due_at)
    select given.*, now() + pause.milliseconds * interval '1 millisecond'
    from unnest(
      ${rows.map((row) => row.teamId)}::smallint[], ${rows.map((row) => row.stream)}::text[],
      ${rows.map((row) => row.id)}::text[], ${rows.map((row) => row.reason)}::text[],
      ${rows.map((row) => row.origin)}::text[], ${rows.map((row) => row.since)}::timestamptz[]
    ) as given (team_id, stream, id, reason, origin, since)
    join unnest(${REASONS}::text[], ${REASONS.map(pauseOf)}::int[])
      as pause (reason, milliseconds) using (reason)
    where given.since is null or not exists (
      select from intake_raw.records stored
      where (stored.team_id, stored.stream, stored.id) = (given.team_id, given.stream, given.id)
        and ${isKnownSince('given.since')})
    order by given.team_id, given.stream, given.id
    on conflict (team_id, stream, id) do update set
      asked = refetch.asked + 1,
      reason = case
        when array_position(${REASONS}::text[], excluded.reason) < array_position(${REASONS}::text[], refetch.reason)
        then excluded.reason else refetch.reason end,
      since = case
        when refetch.since is null or excluded.since is null then null
        else greatest(refetch.since, excluded.since) end`.execute(db)
  return Number(numAffectedRows ?? 0n)
}

/** True if the record `stored` includes the change of the time in `column`, and needs no fetch. */
export function isKnownSince(column: string): RawBuilder<unknown> {
  return sql`stored.version >= ${sql.ref(column)} and ${IS_SETTLED}`
}

/** By the field that the declaration of the record's stream names. */
const IS_SETTLED = sql`case stored.stream ${sql.join(
  ALL_STREAMS.flatMap(({ name, settledBy }) =>
    settledBy === undefined
      ? []
      : [sql`when ${sql.lit(name)} then stored.payload ->> ${sql.lit(settledBy)} = 'true'`],
  ),
  sql` `,
)} else false end`

function withoutRepeats(requests: readonly RefetchRequest[]): Iterable<RefetchRequest> {
  const byKey = new Map<string, RefetchRequest>()
  for (const request of requests) {
    const key = `${request.teamId}/${request.stream}/${request.id}`
    const known = byKey.get(key)
    byKey.set(key, known === undefined ? request : joined(known, request))
  }
  return byKey.values()
}

/** The stricter of both requests: an answer to it satisfies the other too. */
function joined(known: RefetchRequest, request: RefetchRequest): RefetchRequest {
  const first = REASONS.indexOf(request.reason) < REASONS.indexOf(known.reason) ? request : known
  return {
    ...first,
    since: known.since === null || request.since === null ? null : laterOf(known.since, request.since),
  }
}
