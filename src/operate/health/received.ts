/**
 * Counts received events by team and hour, the input of silence.ts.
 *
 * Invariant: receiving never waits for this. Counts are buffered in memory and written every few seconds. A process that
 * is killed loses the buffered counts, but no events.
 */
import { sql } from 'kysely'
import type { Logger } from 'pino'
import { type BoundedQueries, boundedQuery } from '../../warehouse/bounded-queries.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

const FLUSH_MS = 2_000
const TIDY_MS = 10_000
/** Retention of the hourly counts. */
const KEPT = '60 days'
/** Six years, as HIPAA asks of documentation. */
const AUDIT_KEPT = '6 years'

export interface Received extends AsyncDisposable {
  note(team: string, duplicate: boolean): void
  /** Writes the buffered counts. */
  close(): Promise<void>
}

export function openReceived(options: {
  readonly bounded: BoundedQueries
  readonly logger: Logger
}): Received {
  let counts = new Map<string, number>()
  let writing: Promise<void> = Promise.resolve()
  let failed = false

  async function flush(): Promise<void> {
    if (counts.size === 0) return
    const taken = counts
    counts = new Map()
    try {
      await write(options.bounded, taken)
      failed = false
    } catch (error) {
      for (const [team, count] of taken) counts.set(team, (counts.get(team) ?? 0) + count)
      if (!failed) options.logger.warn({ code: warehouseError(error).code }, 'counts of events are delayed')
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

async function write(bounded: BoundedQueries, counts: ReadonlyMap<string, number>): Promise<void> {
  const statement = sql`
    insert into intake_ops.events_received as stored (team_id, hour, events, last_at)
    select team.team_id, date_trunc('hour', now()), received.events, now()
    from unnest(${[...counts.keys()]}::text[], ${[...counts.values()]}::bigint[]) as received (name, events)
    join intake.teams team using (name)
    order by team.team_id
    on conflict (team_id, hour) do update
      set events = stored.events + excluded.events, last_at = greatest(stored.last_at, excluded.last_at)`
  await bounded.run({ purpose: 'event counts', milliseconds: FLUSH_MS }, (db) => statement.execute(db))
}

/** Removes counts older than the retention period, and audited actions older than theirs. */
export async function dropOldCounts(url: string): Promise<void> {
  const counts = sql`delete from intake_ops.events_received where hour < now() - ${KEPT}::interval`
  const actions = sql`delete from intake_ops.audit where at < now() - ${AUDIT_KEPT}::interval`
  await boundedQuery({ url, purpose: 'event counts', milliseconds: TIDY_MS }, async (db) => {
    await counts.execute(db)
    await actions.execute(db)
  })
}
