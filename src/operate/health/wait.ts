/**
 * Waits until the warehouse is as new as a time: reading after writing, for scripts.
 *
 * - A record is when a state of it from that time or later is stored, a tombstone included.
 * - A stream is when such a state of any of its records is stored, and no received event of it is pending.
 * - Both are when a run that began at that time or later has read the whole list; a stream that is read by windows is
 *   as new as its last run, its records are not.
 *
 * Invariant: only looks; the caller bounds how long. Two looks are further apart the longer a look takes.
 */
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import type { Instant } from '../../core/time.ts'
import { selectTeam } from '../../core/which-team.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readTeams } from '../../warehouse/teams.ts'

export interface Wanted {
  /** Undefined: the only team of the warehouse. */
  readonly team: string | undefined
  readonly stream: Stream
  /** Null: the stream as a whole. */
  readonly id: string | null
  /** On the service's clock. */
  readonly since: Instant
}

export interface Waited {
  readonly reached: boolean
  readonly stream: string
  readonly id: string | null
  readonly since: string
  /** What showed it; null if nothing did. */
  readonly by: 'record' | 'run' | null
  /** The version of the state, or the start of the run. */
  readonly as_of: string | null
}

type Found = Pick<Waited, 'by' | 'as_of'>

const PAUSE_MS = 200
/** A look may take this share of the time. */
const SHARE = 10

export interface WaitOptions {
  /** At least one look is made. */
  readonly timeoutMs: number
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** `look` calls `readAsOf` on a connection of the caller's choice. Rejects with the signal's reason. */
export async function waitFor(
  { stream, id, since }: Wanted,
  look: () => Promise<Found | null>,
  { timeoutMs, clock, signal }: WaitOptions,
): Promise<Waited> {
  const end = clock.now() + timeoutMs * 1000
  const asked = { stream: stream.name, id, since }
  for (;;) {
    const begun = clock.now()
    const found = await look()
    if (found !== null) return { reached: true, ...asked, ...found }
    const now = clock.now()
    const pause = Math.max(PAUSE_MS, ((now - begun) / 1000) * SHARE)
    const left = (end - now) / 1000
    if (left <= 0) return { reached: false, ...asked, by: null, as_of: null }
    await clock.sleep(Math.min(pause, left), signal)
  }
}

/** Null while the warehouse is not as new. Throws `UsageError` for an unknown team. */
export async function readAsOf(db: Kysely<Warehouse>, wanted: Wanted): Promise<Found | null> {
  const { stream, id, since } = wanted
  const { teamId } = selectTeam(await readTeams(db), wanted.team, 'warehouse')
  const run = id === null || stream.reading === undefined ? await runSince(db, teamId, stream, since) : null
  if (run !== null) return { by: 'run', as_of: run }
  const record =
    id === null ? await anySince(db, teamId, stream, since) : await recordSince(db, teamId, wanted)
  return record === null ? null : { by: 'record', as_of: record }
}

async function runSince(
  db: Kysely<Warehouse>,
  teamId: number,
  { name }: Stream,
  since: Instant,
): Promise<string | null> {
  const { rows } = await sql<{ as_of: string }>`
    select to_json(run.started_at) #>> '{}' as as_of
    from intake_ops.run_streams part join intake_ops.runs run using (run_id)
    where part.team_id = ${teamId} and part.stream = ${name} and part.status = 'succeeded'
      and run.kind = 'backfill' and run.finished_at is not null and run.started_at >= ${since}
    order by run.run_id desc limit 1`.execute(db)
  return rows[0]?.as_of ?? null
}

async function recordSince(db: Kysely<Warehouse>, teamId: number, wanted: Wanted): Promise<string | null> {
  const { rows } = await sql<{ as_of: string }>`
    select to_json(version) #>> '{}' as as_of from intake_raw.records
    where team_id = ${teamId} and stream = ${wanted.stream.name} and id = ${wanted.id} and version >= ${wanted.since}`.execute(
    db,
  )
  return rows[0]?.as_of ?? null
}

async function anySince(
  db: Kysely<Warehouse>,
  teamId: number,
  { name, source }: Stream,
  since: Instant,
): Promise<string | null> {
  const { rows } = await sql<{ as_of: string | null }>`
    select to_json(max(version)) #>> '{}' as as_of from intake_raw.records
    where team_id = ${teamId} and stream = ${name} and version >= ${since} and not exists (
      select from intake_raw.inbox
      where team_id = ${teamId} and status = 'pending' and source = ${source ?? null}
    )`.execute(db)
  return rows[0]?.as_of ?? null
}

/** Throws `UsageError` for an unknown name. */
export function streamNamed(name: string): Stream {
  const stream = ALL_STREAMS.find((each) => each.name === name)
  if (stream !== undefined) return stream
  const names = ALL_STREAMS.map((each) => each.name).join(', ')
  throw new UsageError(`unknown stream "${name}"`, `use one of: ${names}`, 'STREAM', 'unknown_stream')
}

export function notReached({ stream, id, since }: Waited): IntakeError {
  const what = id === null ? `the stream ${stream} is` : `the record of ${stream} is`
  return new IntakeError(`${what} not as new as ${since} yet`, {
    code: 'not_reached',
    verdict: 'retry',
    hint: 'wait longer, or read it from the service with intake-sync backfill; status shows whether webhooks arrive',
  })
}
