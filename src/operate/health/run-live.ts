/**
 * How far a running run has come, and the newest lines of a run's log.
 *
 * Invariant: only reads; counts, names of teams and streams, and lines of the log, which contain no value of a record.
 */
import { type Kysely, sql } from 'kysely'
import type { Figures } from '../../load/run-progress.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

/** A stream of a running run, as last stored. */
export interface StoredProgress extends Omit<Figures, 'counts'> {
  readonly team: string
  readonly stream: string
  /** From when the current process began the stream until its row was last stored. */
  readonly seconds: number
}

export interface LiveStream extends StoredProgress {
  /** Records per second; null before the first. */
  readonly rate: number | null
  /** Of the list that is being read; null where the service does not count it. */
  readonly seconds_left: number | null
}

export interface LiveTeam {
  readonly team: string
  readonly requests: number
  readonly throttled: number
  readonly permitted_rate: number | null
  /** Requests per second since the team's first stream began, and their share of the permitted ones. */
  readonly rate: number
  readonly share: number | null
}

export interface Live {
  readonly streams: readonly LiveStream[]
  readonly teams: readonly LiveTeam[]
  /** Until the last of the lists that are being read; null where none can be foretold. */
  readonly seconds_left: number | null
}

/** What the stored progress means: rates, use of the budget, time left. */
export function progressOf(stored: readonly StoredProgress[]): Live {
  const streams = stored.map((each): LiveStream => {
    const { fetched, pages, pages_left, seconds, phase } = each
    const rate = fetched > 0 && seconds > 0 ? fetched / seconds : null
    const isFetching = phase === 'fetch' && pages > 0 && pages_left !== null
    return { ...each, rate, seconds_left: isFetching ? (pages_left * seconds) / pages : null }
  })
  const teams = [...new Set(stored.map(({ team }) => team))].map((team): LiveTeam => {
    const own = stored.filter((each) => each.team === team)
    const sum = (figure: 'requests' | 'throttled') => own.reduce((total, each) => total + each[figure], 0)
    const [requests, throttled] = [sum('requests'), sum('throttled')]
    const rate = requests / Math.max(1, ...own.map(({ seconds }) => seconds))
    const permitted_rate = own.find((each) => each.permitted_rate !== null)?.permitted_rate ?? null
    const share = permitted_rate === null ? null : Math.min(1, rate / permitted_rate)
    return { team, requests, throttled, permitted_rate, rate, share }
  })
  const left = streams.flatMap(({ seconds_left }) => seconds_left ?? [])
  return { streams, teams, seconds_left: left.length === 0 ? null : Math.max(...left) }
}

export async function readProgress(db: Kysely<Warehouse>, runId: number): Promise<readonly StoredProgress[]> {
  const { rows } = await sql<StoredProgress>`
    select team.name as team, stream, phase, pages::float8 as pages, requests::float8 as requests,
      throttled::float8 as throttled, fetched::float8 as fetched, expected::float8 as expected,
      pages_left::float8 as pages_left, permitted_rate,
      greatest(0, extract(epoch from updated_at - began_at))::float8 as seconds
    from intake_ops.run_progress join intake.teams team using (team_id)
    where run_id = ${runId} order by phase = 'ended', team.name, began_at, stream`.execute(db)
  return rows
}

export interface LogLine {
  readonly at: string
  readonly level: string
  readonly team: string | null
  readonly stream: string | null
  readonly message: string
}

/** The newest last. */
export async function readLines(db: Kysely<Warehouse>, runId: number): Promise<readonly LogLine[]> {
  const { rows } = await sql<LogLine>`
    select to_json(at) #>> '{}' as at, level, team.name as team, stream, message
    from intake_ops.run_log left join intake.teams team using (team_id) where run_id = ${runId} order by line`.execute(
    db,
  )
  return rows
}

/** A slice of a run that workers execute. */
export interface ShownSlice {
  readonly slice_id: number
  /** Null for the slice that closes the run. */
  readonly team: string | null
  readonly stream: string
  readonly state: 'pending' | 'claimed' | 'done' | 'canceled'
  readonly epoch: number
  /** Host, process and a random part of the worker that has it, or settled it. */
  readonly owner: string | null
  readonly claimed_at: string | null
  /** Since its worker last said that it executes it; null unless it is claimed. */
  readonly silent_seconds: number | null
  readonly settled_at: string | null
  /** Workers that ended with it. */
  readonly takeovers: number
  /** How far it is, as last stored; null before the first second. */
  readonly phase: string | null
  /** The same; the number of requests if the stream was settled before that, null if it failed or was interrupted. */
  readonly pages: number | null
  /** Of the list that is being read; null if that is unknown. */
  readonly pages_left: number | null
  readonly fetched: number | null
  readonly expected: number | null
  /** Since it was last claimed, until it was settled; null while it is pending. */
  readonly seconds: number | null
  /** Counts, status and note of what was settled; null until then. */
  readonly result: Readonly<Record<string, unknown>> | null
}

export async function readSlices(db: Kysely<Warehouse>, runId: number): Promise<readonly ShownSlice[]> {
  const { rows } = await sql<ShownSlice>`
    select slice_id::int as slice_id, coalesce(team.name, slice.team_id::text) as team, slice.stream, state,
      epoch::float8 as epoch, owner, to_json(claimed_at) #>> '{}' as claimed_at,
      case when state = 'claimed' then greatest(0, extract(epoch from now() - heartbeat_at))::float8 end as silent_seconds,
      to_json(settled_at) #>> '{}' as settled_at, takeovers, progress.phase, progress.fetched::float8 as fetched,
      progress.expected::float8 as expected, progress.pages_left::float8 as pages_left,
      case when result ->> 'status' in ('failed', 'interrupted') then null
        else coalesce(progress.pages, (result ->> 'requests')::bigint)::float8 end as pages,
      case when state <> 'pending' then greatest(0, extract(epoch from coalesce(settled_at, now()) - claimed_at))::float8
        end as seconds, result
    from intake_ops.slices slice
    left join intake.teams team using (team_id)
    left join intake_ops.run_progress progress
      on (progress.run_id, progress.team_id, progress.stream) = (slice.run_id, slice.team_id, slice.stream)
        and (slice.state <> 'done' or progress.phase = 'ended')
    where slice.run_id = ${runId} order by slice_id`.execute(db)
  return rows
}

/** The rest of a run that workers execute, in pages. */
export interface Eta {
  /** Streams that are not settled. */
  readonly slices_left: number
  /** Streams that workers read now, and how many workers. */
  readonly slices_claimed: number
  readonly workers: number
  /** Of the streams that are being read; `expected_pages` is null if it is unknown for one of them. */
  readonly pages: number
  readonly expected_pages: number | null
  /** Pages per second of all workers together; null if none reads, or before the first page. */
  readonly rate: number | null
  /** Remaining streams that have no count, and that the run has not read for another team either. */
  readonly slices_unknown: number
  readonly seconds_left: number | null
}

/** A worker that was silent for this long counts as gone. */
const SILENT_SECONDS = 60

/** Null for a run without slices. A stream without a count is taken to be as long as those of other teams in this run. */
export function etaOf(all: readonly ShownSlice[]): Eta | null {
  if (all.length === 0) return null
  const slices = all.filter(({ team }) => team !== null)
  const done = slices.filter(({ state, pages }) => state === 'done' && pages !== null)
  const inHand = slices.filter(isInHand)
  const left = slices.filter(({ state }) => state === 'pending' || state === 'claimed')
  const lengths = new Map(left.map((slice) => [slice, lengthOf(slice, done)]))
  const sum = (values: readonly (number | null)[]) =>
    values.reduce<number>((total, value) => total + (value ?? 0), 0)
  const read = [...done, ...inHand]
  const seconds = sum(read.map((slice) => slice.seconds))
  const pages = sum(read.map(pagesOf))
  const rate = pages > 0 && seconds > 0 && inHand.length > 0 ? (pages / seconds) * inHand.length : null
  const remaining = (slice: ShownSlice) => Math.max(0, (lengths.get(slice) ?? 0) - pagesOf(slice))
  // The rest of a stream is read by one worker, however many there are.
  const longest = inHand.map((slice) => {
    const own = pagesOf(slice)
    return own > 0 ? (remaining(slice) * slice.seconds!) / own : 0
  })
  const slices_unknown = left.filter((slice) => lengths.get(slice) === null).length
  const expected = inHand.map((slice) => lengths.get(slice) ?? null)
  const total = sum(left.map(remaining))
  return {
    slices_left: left.length,
    slices_claimed: inHand.length,
    workers: new Set(inHand.map(({ owner }) => owner)).size,
    pages: sum(inHand.map(pagesOf)),
    expected_pages: expected.includes(null) ? null : sum(expected),
    rate,
    slices_unknown,
    seconds_left:
      slices_unknown > 0 ? null : total === 0 ? 0 : rate === null ? null : Math.max(total / rate, ...longest),
  }
}

function isInHand({ state, silent_seconds }: ShownSlice): boolean {
  return state === 'claimed' && silent_seconds !== null && silent_seconds < SILENT_SECONDS
}

/** Read so far; none while no worker has the slice, though the next one may continue its scan. */
function pagesOf(slice: ShownSlice): number {
  return slice.state === 'done' || isInHand(slice) ? (slice.pages ?? 0) : 0
}

/** All pages of a stream that is not settled; null if their number cannot be estimated. */
function lengthOf(slice: ShownSlice, done: readonly ShownSlice[]): number | null {
  const { phase, pages_left } = slice
  const pages = pagesOf(slice)
  if (isInHand(slice) && phase !== null && !['plan', 'fetch'].includes(phase)) return pages
  if (pages > 0 && pages_left !== null) return pages + pages_left
  const alike = done.filter(({ stream }) => stream === slice.stream)
  if (alike.length === 0) return null
  // The pages of a stream that was taken over are those of its last worker.
  const whole = alike.filter(({ takeovers }) => takeovers === 0)
  const like = whole.length === 0 ? alike : whole
  return Math.max(pages, like.reduce((total, each) => total + pagesOf(each), 0) / like.length)
}
