/**
 * Asking for records whose newest state only the service can tell (intake_ops.refetches).
 *
 * Invariant: a record is asked for once, however many events doubt it; asking again while a request is under way is
 * not lost, because what settles a row names how often it was asked. Rows are written in the order of their keys.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { StreamName } from '../core/streams.ts'
import { type Instant, laterOf } from '../core/time.ts'
import type { Warehouse } from '../warehouse/tables.ts'

/**
 * - `contested`: an event lost to, or tied with, another content.
 * - `partial`: an event did not hold the whole record.
 * - `member`: changed by the submission of its packet.
 */
export type RefetchReason = 'contested' | 'partial' | 'member'

export interface Ask {
  readonly teamId: number
  readonly stream: StreamName
  readonly id: string
  readonly reason: RefetchReason
  /** Of the event that asks. */
  readonly origin: string
  /** Of a member: one that is held as submitted, of this time or later, needs no asking. */
  readonly since: Instant | null
}

/**
 * Milliseconds before a record is asked for. A bound for the service's clock may be a second early, so that an answer
 * to a request made at once would lose to the event that asks; and events of members arrive a moment later themselves.
 */
const PAUSE: Readonly<Record<RefetchReason, number>> = { contested: 1_000, partial: 0, member: 1_000 }

/** Of several reasons the first says most of what the answer decides. */
const REASONS: readonly RefetchReason[] = ['contested', 'partial', 'member']

/** Writes what is asked for, within the transaction at hand. Returns how many of them have to be fetched. */
export async function askAgain(db: Kysely<Warehouse>, asks: readonly Ask[]): Promise<number> {
  const rows = [...onceEach(asks)]
  if (rows.length === 0) return 0
  const { numAffectedRows } = await sql`
    insert into intake_ops.refetches as asked_for (team_id, stream, id, reason, origin, since, due_at)
    select came.*, now() + pause.milliseconds * interval '1 millisecond'
    from unnest(
      ${rows.map((row) => row.teamId)}::smallint[], ${rows.map((row) => row.stream)}::text[],
      ${rows.map((row) => row.id)}::text[], ${rows.map((row) => row.reason)}::text[],
      ${rows.map((row) => row.origin)}::text[], ${rows.map((row) => row.since)}::timestamptz[]
    ) as came (team_id, stream, id, reason, origin, since)
    join unnest(${REASONS}::text[], ${REASONS.map((reason) => PAUSE[reason])}::int[])
      as pause (reason, milliseconds) using (reason)
    where came.since is null or not exists (
      select from intake_raw.records held
      where (held.team_id, held.stream, held.id) = (came.team_id, came.stream, came.id)
        and ${isKnownSince('came.since')})
    order by came.team_id, came.stream, came.id
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

/** Of a record that is `held`: it is known as submitted, at the time of that column or later, and needs no asking. */
export function isKnownSince(column: string): RawBuilder<unknown> {
  return sql`held.version >= ${sql.ref(column)} and held.payload ->> 'is_submitted' = 'true'`
}

function onceEach(asks: readonly Ask[]): Iterable<Ask> {
  const byKey = new Map<string, Ask>()
  for (const ask of asks) {
    const key = `${ask.teamId}/${ask.stream}/${ask.id}`
    const known = byKey.get(key)
    byKey.set(key, known === undefined ? ask : joined(known, ask))
  }
  return byKey.values()
}

/** What answers both: an answer that satisfies one alone would leave the other unasked. */
function joined(known: Ask, ask: Ask): Ask {
  const first = REASONS.indexOf(ask.reason) < REASONS.indexOf(known.reason) ? ask : known
  return {
    ...first,
    since: known.since === null || ask.since === null ? null : laterOf(known.since, ask.since),
  }
}
