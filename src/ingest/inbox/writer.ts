/**
 * One connection to the warehouse that stores batches, one at a time, and is renewed for as long as it takes.
 *
 * Invariant: whatever the warehouse does, also when it hangs, a batch ends at the first `expire` after the limit
 * of a statement; a connection that failed, or did not answer in time, is never used again.
 */
import type { QueryArrayConfig } from 'pg'
import type { Clock } from '../../core/clock.ts'
import type { IntakeError } from '../../core/errors.ts'
import { TIMED_OUT, timedOut } from '../../warehouse/bounded-queries.ts'
import { openSession, PLANNER, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type InboxEvent, keyOf, type StoreOutcome } from './event.ts'

export interface Writer {
  readonly isConnected: boolean
  /** Connected, and without a batch. */
  readonly isFree: boolean
  /** Returns the outcome of each event. After a rejection with an `IntakeError`, some may be stored all the same. */
  store(events: readonly InboxEvent[]): Promise<ReadonlyMap<InboxEvent, StoreOutcome>>
  /** Reconnects, unless a batch is in flight: its answer shows whether the connection works. */
  renew(): void
  /** Gives up a batch whose time is over at `now`, in the clock's microseconds. To be called often while it is busy. */
  expire(now: number): void
  close(): Promise<void>
}

export interface WriterOptions {
  readonly url: string
  readonly clock: Clock
  readonly statementMs: number
  /** Called when it is connected, and with the failure when it could not be or did not answer in time. */
  readonly onChange: (failure: IntakeError | null) => void
}

/** Codes of failures after which the connection is of no more use. */
const ENDED = new Set([TIMED_OUT, 'warehouse_unreachable', 'shutdown', 'starting'])
/**
 * How much earlier the warehouse itself ends a statement, and a wait for a lock earlier still: it costs no connection
 * then, and the reason is known.
 */
const HEAD_START_MS = 200
const FIRST_PAUSE_MS = 50
const MAX_PAUSE_MS = 1_000

/** Resolves after its first attempt to connect, whether that succeeded or not. */
export async function openWriter({ url, clock, statementMs, onChange }: WriterOptions): Promise<Writer> {
  const closing = new AbortController()
  let session: Session | null = null
  let busy = false
  /** Of the batch in flight. */
  let deadline = 0
  let giveUp = () => {}

  const connect = async (): Promise<boolean> => {
    try {
      const planner = [
        ...PLANNER.inbox,
        // Whatever the settings of the database: 200 says that the event is on the disk.
        'synchronous_commit=on',
        `statement_timeout=${statementMs - HEAD_START_MS}`,
      ]
      const lockTimeoutMs = statementMs - 2 * HEAD_START_MS
      const opened = await openSession({
        ...{ url, purpose: 'ingest', planner },
        ...{ connectTimeoutMs: statementMs, lockTimeoutMs },
      })
      if (closing.signal.aborted) {
        await opened.close()
        return true
      }
      session = opened
      opened.client.once('end', () => lose(opened))
      onChange(null)
      return true
    } catch (error) {
      onChange(warehouseError(error))
      return false
    }
  }
  const renew = async () => {
    for (let pause = FIRST_PAUSE_MS; !closing.signal.aborted; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      if (await connect()) return
      await clock.sleep(pause, closing.signal).catch(() => {})
    }
  }
  let renewing = Promise.resolve()
  const lose = (lost: Session) => {
    if (session !== lost) return
    session = null
    void lost.close()
    if (!closing.signal.aborted) renewing = renew()
  }

  if (!(await connect())) renewing = renew()
  return {
    get isConnected() {
      return session !== null
    },
    get isFree() {
      return session !== null && !busy
    },
    async store(events) {
      const used = session!
      busy = true
      try {
        const row = await new Promise<StoredRow>((resolve, reject) => {
          deadline = clock.now() + statementMs * 1000
          giveUp = () => reject(timedOut())
          used.client.query<StoredRow>(storeStatement(events)).then(({ rows }) => resolve(rows[0]!), reject)
        })
        return outcomesOf(events, row)
      } catch (error) {
        const failure = warehouseError(error)
        if (ENDED.has(failure.code)) lose(used)
        if (failure.code === TIMED_OUT) onChange(failure)
        throw failure
      } finally {
        busy = false
      }
    },
    renew() {
      if (session !== null && !busy) lose(session)
    },
    expire(now) {
      if (busy && now >= deadline) giveUp()
    },
    async close() {
      closing.abort()
      const last = session
      session = null
      if (last !== null) await last.close()
      await renewing
    },
  }
}

const HASH_BYTES = 32

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
type StoredRow = readonly [count: number, keys: string | null, removed: readonly number[]]

/** `events`: each key once. */
function storeStatement(events: readonly InboxEvent[]): QueryArrayConfig {
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
function outcomesOf(
  events: readonly InboxEvent[],
  [count, keys, removed]: StoredRow,
): ReadonlyMap<InboxEvent, StoreOutcome> {
  const stored = keys === null ? null : new Set(keys.split(' '))
  return new Map(
    events.map((event) => {
      const isStored = stored === null ? count > 0 : stored.has(keyOf(event))
      return [event, isStored ? 'stored' : removed.includes(event.teamId) ? 'removed' : 'duplicate']
    }),
  )
}
