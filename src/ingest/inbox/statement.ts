/**
 * The one statement that stores a batch of events.
 *
 * Invariant: it stores every event of the batch that is in neither today's nor yesterday's partition, except events of
 * removed teams, and returns which events it stored. The rows are written in the order of their keys, so that two
 * processes that received the same events wait for each other and never deadlock.
 *
 * All bodies travel as one binary parameter, which neither side has to decode, and are cut apart by offset; so do the
 * hashes. Times and days are the warehouse's own, so that several machines agree on them.
 */
import type { QueryArrayConfig } from 'pg'
import type { InboxEvent } from './event.ts'

const HASH_BYTES = 32

const TEXT = `
  with hold as materialized (
    select intake_raw.hold_inbox_of($3::int2[]) as removed
  ), stored as (
    insert into intake_raw.inbox
      (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
    select given.team_id, given.event_id, given.body_hash, (now() at time zone 'UTC')::date, now(),
      given.event_type, given.source, given.record_id, substr($1::bytea, given.start, given.length)
    from (
      select team_id, event_id, substr($2::bytea, (number::int - 1) * ${HASH_BYTES} + 1, ${HASH_BYTES}) as body_hash,
        event_type, source, record_id, start, length
      from unnest($3::int2[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[])
        with ordinality as row (team_id, event_id, event_type, source, record_id, start, length, number)
    ) as given
    where given.team_id <> all ((select removed from hold)::int2[]) and (
      select true from intake_raw.inbox as yesterday
      where yesterday.received_on = (now() at time zone 'UTC')::date - 1
        and yesterday.team_id = given.team_id
        and yesterday.event_id = given.event_id
        and yesterday.body_hash = given.body_hash
    ) is null
    on conflict do nothing
    returning team_id, body_hash
  )
  select count(*)::int,
    case when count(*) < $10::int then string_agg(team_id || ':' || encode(body_hash, 'hex'), ' ') end,
    (select removed from hold)
  from stored`

/**
 * The statement's result: how many events were stored; when some were not, the keys of those that were; and the removed
 * teams, whose events are never stored.
 */
export type StoredRow = readonly [count: number, keys: string | null, removed: readonly number[]]

export type Fate = 'stored' | 'duplicate' | 'removed'

/** Events are duplicates only within a team. The body contains the event's id. */
export function keyOf(event: InboxEvent): string {
  return `${event.teamId}:${event.bodyHash}`
}

/** `events`: each key once. */
export function storeStatement(events: readonly InboxEvent[]): QueryArrayConfig {
  const sorted = [...events].sort((a, b) =>
    a.bodyHash < b.bodyHash ? -1 : a.bodyHash > b.bodyHash ? 1 : a.teamId - b.teamId,
  )
  const starts: number[] = []
  let length = 0
  for (const event of sorted) {
    starts.push(length + 1)
    length += event.body.length
  }
  return {
    name: 'store events',
    text: TEXT,
    rowMode: 'array',
    values: [
      Buffer.concat(
        sorted.map((event) => event.body),
        length,
      ),
      Buffer.from(sorted.map((event) => event.bodyHash).join(''), 'hex'),
      arrayOf(sorted.map((event) => event.teamId)),
      arrayOf(sorted.map((event) => quoted(event.eventId))),
      arrayOf(sorted.map((event) => quoted(event.eventType))),
      arrayOf(sorted.map((event) => quoted(event.source))),
      arrayOf(sorted.map((event) => quoted(event.recordId))),
      arrayOf(starts),
      arrayOf(sorted.map((event) => event.body.length)),
      sorted.length,
    ],
  }
}

/** Text of an array, for which pg would take five times as long. */
function arrayOf(items: readonly (string | number)[]): string {
  return `{${items.join()}}`
}

function quoted(text: string | null): string {
  if (text === null) return 'NULL'
  return /["\\]/.test(text) ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : `"${text}"`
}

/** The outcome of each event: one that was not stored now was stored before, or its team was removed. */
export function fatesOf(
  events: readonly InboxEvent[],
  [count, keys, removed]: StoredRow,
): ReadonlyMap<InboxEvent, Fate> {
  const stored = keys === null ? null : new Set(keys.split(' '))
  return new Map(
    events.map((event) => {
      const isStored = stored === null ? count > 0 : stored.has(keyOf(event))
      return [event, isStored ? 'stored' : removed.includes(event.teamId) ? 'removed' : 'duplicate']
    }),
  )
}
