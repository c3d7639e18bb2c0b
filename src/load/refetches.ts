/**
 * Records to fetch by id, because only the service knows their newest state (intake_ops.refetches).
 *
 * Invariant: a record has one row, however many events ask for it; asking again while a fetch is in progress is not lost,
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
  /** Of the event that asks. */
  readonly origin: string
  /** For a member: if the stored record includes the change of this time, it is not fetched. */
  readonly since: Instant | null
}

/**
 * Milliseconds before a record is fetched. The bound of the service's clock may be a second early, so that the answer to an
 * immediate request would lose to the event that asks for it; and events of members arrive shortly after.
 */
const pauseOf = (reason: RefetchReason): number => (reason === 'partial' ? 0 : 1_000)

/** In order of precedence. */
const REASONS: readonly RefetchReason[] = ['contested', 'partial', 'member']

/** Stores the records to fetch, within the current transaction. Returns their number. */
export async function requestRefetches(
  db: Kysely<Warehouse>,
  asks: readonly RefetchRequest[],
): Promise<number> {
  const rows = [...withoutRepeats(asks)]
  if (rows.length === 0) return 0
  const { numAffectedRows } = await sql`
    insert into intake_ops.refetches as asked_for (team_id, stream, id, reason, origin, since, due_at)
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
      asked = asked_for.asked + 1,
      reason = case
        when array_position(${REASONS}::text[], excluded.reason) < array_position(${REASONS}::text[], asked_for.reason)
        then excluded.reason else asked_for.reason end,
      since = case
        when asked_for.since is null or excluded.since is null then null
        else greatest(asked_for.since, excluded.since) end`.execute(db)
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

function withoutRepeats(asks: readonly RefetchRequest[]): Iterable<RefetchRequest> {
  const byKey = new Map<string, RefetchRequest>()
  for (const ask of asks) {
    const key = `${ask.teamId}/${ask.stream}/${ask.id}`
    const known = byKey.get(key)
    byKey.set(key, known === undefined ? ask : joined(known, ask))
  }
  return byKey.values()
}

/** The stricter of both requests: an answer to it satisfies the other too. */
function joined(known: RefetchRequest, ask: RefetchRequest): RefetchRequest {
  const first = REASONS.indexOf(ask.reason) < REASONS.indexOf(known.reason) ? ask : known
  return {
    ...first,
    since: known.since === null || ask.since === null ? null : laterOf(known.since, ask.since),
  }
}
