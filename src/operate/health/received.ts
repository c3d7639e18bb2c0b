/**
 * How many events came, by team and hour: what silence is noticed by (silence.ts).
 *
 * Invariant: receiving waits for none of this. Counts are kept in memory and written every few seconds; a process
 * that is killed takes the last of them along, which changes nothing about the events themselves.
 */
import { sql } from 'kysely'
import type { Logger } from 'pino'
import { glance } from '../../warehouse/glance.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

const FLUSH_MS = 2_000
const TIDY_MS = 10_000
/** Hours that are kept. */
const KEPT = '60 days'

export interface Received extends AsyncDisposable {
  note(team: string, duplicate: boolean): void
  /** Writes what was not written yet. */
  close(): Promise<void>
}

export function openReceived(options: { readonly url: string; readonly logger: Logger }): Received {
  let counts = new Map<string, number>()
  let writing: Promise<void> = Promise.resolve()
  let failed = false

  async function flush(): Promise<void> {
    if (counts.size === 0) return
    const taken = counts
    counts = new Map()
    try {
      await write(options.url, taken)
      failed = false
    } catch (error) {
      for (const [team, count] of taken) counts.set(team, (counts.get(team) ?? 0) + count)
      if (!failed) options.logger.warn({ code: warehouseError(error).code }, 'counts of events wait')
      failed = true
    }
  }
  const next = () => {
    writing = writing.then(flush)
    return writing
  }
  const timer = setInterval(next, FLUSH_MS)
  timer.unref()
  const close = async () => {
    clearInterval(timer)
    await next()
  }
  return {
    note: (team, duplicate) => void counts.set(team, (counts.get(team) ?? 0) + (duplicate ? 0 : 1)),
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function write(url: string, counts: ReadonlyMap<string, number>): Promise<void> {
  const statement = sql`
    insert into intake_ops.events_received as held (team_id, hour, events, last_at)
    select team.team_id, date_trunc('hour', now()), told.events, now()
    from unnest(${[...counts.keys()]}::text[], ${[...counts.values()]}::bigint[]) as told (name, events)
    join intake.teams team using (name)
    order by team.team_id
    on conflict (team_id, hour) do update
      set events = held.events + excluded.events, last_at = greatest(held.last_at, excluded.last_at)`
  await glance({ url, purpose: 'event counts', milliseconds: FLUSH_MS }, (db) => statement.execute(db))
}

/** Removes the hours that nobody looks back to any more. */
export async function dropOldCounts(url: string): Promise<void> {
  const statement = sql`delete from intake_ops.events_received where hour < now() - ${KEPT}::interval`
  await glance({ url, purpose: 'event counts', milliseconds: TIDY_MS }, (db) => statement.execute(db))
}
