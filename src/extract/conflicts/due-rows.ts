/**
 * Takes, leases and settles rows of intake_ops.refetches.
 *
 * Invariant: taking a row moves its due time on, as a lease that is renewed during the fetch. So no other process
 * fetches the record meanwhile, and a process that dies delays the row by seconds. Settling deletes a row only if the
 * record was not requested again since the row was taken.
 */
import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../../core/envelope.ts'
import { isKnownSince, type RefetchReason } from '../../load/refetches.ts'
import type { Warehouse } from '../../warehouse/tables.ts'

export interface DueRow {
  readonly teamId: number
  readonly stream: StreamName
  readonly id: string
  readonly reason: RefetchReason
  /** The event that first requested it. */
  readonly origin: string
  /** Requests so far. */
  readonly requests: string
  /** Answers that did not settle the row. */
  readonly attempts: number
  /** Requests that the service failed. */
  readonly failures: number
  /** When the row was taken, before the request, by the clock of the warehouse. */
  readonly takenAt: string
}

/** Length of a lease: a process that was killed delays its rows no longer than this. */
const LEASE_SECONDS = 4
/** Pause between two renewals: two in a row may be late. A record whose lease ran out early is fetched twice, no more. */
export const RENEW_MS = 1_000

/** Returns the teams with rows of their given streams that are due, or will be within `milliseconds`. */
export async function teamsDue(
  db: Kysely<Warehouse>,
  wanted: readonly { readonly teamId: number; readonly streams: readonly StreamName[] }[],
  milliseconds = 0,
): Promise<readonly number[]> {
  const pairs = wanted.flatMap(({ teamId, streams }) => streams.map((stream) => ({ teamId, stream })))
  const { rows } = await sql<{ team_id: number }>`
    select distinct team_id from intake_ops.refetches
    where (team_id, stream) in (
        select * from unnest(${pairs.map(({ teamId }) => teamId)}::smallint[], ${pairs.map(({ stream }) => stream)}::text[])
      )
      and due_at <= now() + ${milliseconds} * interval '1 millisecond'`.execute(db)
  return rows.map((row) => row.team_id)
}

/**
 * Takes due rows of a team; settles without a fetch the members that are stored as submitted and were read after they
 * changed. It waits for no lock: rows that are being requested or settled are left for the next time.
 */
export async function takeDue(
  db: Kysely<Warehouse>,
  teamId: number,
  streams: readonly StreamName[],
  most: number,
): Promise<readonly DueRow[]> {
  const due = sql`refetch.team_id = ${teamId} and refetch.due_at <= now() and refetch.stream = any (${streams}::text[])`
  await sql`
    with known as (
      select refetch.team_id, refetch.stream, refetch.id from intake_ops.refetches refetch
      join intake_raw.records stored using (team_id, stream, id)
      where ${due} and refetch.since is not null and ${isKnownSince('refetch.since')}
      for update of refetch skip locked
    )
    delete from intake_ops.refetches refetch using known
    where (refetch.team_id, refetch.stream, refetch.id) = (known.team_id, known.stream, known.id)`.execute(db)
  const { rows } = await sql<DueRow>`
    with due as (
      select team_id, stream, id from intake_ops.refetches refetch
      where ${due} order by due_at limit ${most} for update skip locked
    )
    update intake_ops.refetches refetch set due_at = now() + ${LEASE_SECONDS} * interval '1 second'
    from due where (refetch.team_id, refetch.stream, refetch.id) = (due.team_id, due.stream, due.id)
    returning refetch.team_id as "teamId", refetch.stream, refetch.id, refetch.reason, refetch.origin,
      refetch.asked::text as requests, refetch.attempts, refetch.failures,
      now()::text as "takenAt"`.execute(db)
  return rows
}

/** Renews the lease of rows, except those that are being settled or are due anew. */
export async function renewLease(db: Kysely<Warehouse>, rows: readonly DueRow[]): Promise<void> {
  if (rows.length === 0) return
  await sql`
    with leased as (
      select team_id, stream, id from intake_ops.refetches
      where (team_id, stream, id) in (
          select * from unnest(${teams(rows)}::smallint[], ${streams(rows)}::text[], ${ids(rows)}::text[])
        )
        and due_at > now()
      for update skip locked
    )
    update intake_ops.refetches refetch set due_at = now() + ${LEASE_SECONDS} * interval '1 second' from leased
    where (refetch.team_id, refetch.stream, refetch.id) = (leased.team_id, leased.stream, leased.id)`.execute(
    db,
  )
}

/**
 * Locks rows until the transaction ends, in the order in which `requestRefetches` writes them, so that the two cannot deadlock.
 * Earlier requests for these rows are committed; later requests wait for this commit.
 */
export async function lockRows(db: Kysely<Warehouse>, rows: readonly DueRow[]): Promise<void> {
  if (rows.length === 0) return
  await sql`
    select from intake_ops.refetches refetch
    where (refetch.team_id, refetch.stream, refetch.id) in (
      select * from unnest(${teams(rows)}::smallint[], ${streams(rows)}::text[], ${ids(rows)}::text[])
    )
    order by refetch.team_id, refetch.stream, refetch.id for update`.execute(db)
}

/**
 * Settles rows, except those that were requested again: these are due anew. The caller has locked them: a statement that
 * waits for a lock itself would still see an old snapshot of the table.
 */
export async function settleRows(db: Kysely<Warehouse>, rows: readonly DueRow[]): Promise<void> {
  if (rows.length === 0) return
  await sql`
    with settled as (
      select * from unnest(${teams(rows)}::smallint[], ${streams(rows)}::text[], ${ids(rows)}::text[], ${rows.map((row) => row.requests)}::bigint[])
        as settled (team_id, stream, id, asked)
    ), gone as (
      delete from intake_ops.refetches refetch using settled
      where (refetch.team_id, refetch.stream, refetch.id, refetch.asked)
        = (settled.team_id, settled.stream, settled.id, settled.asked)
    )
    update intake_ops.refetches refetch set due_at = now(), attempts = 0, failures = 0 from settled
    where (refetch.team_id, refetch.stream, refetch.id) = (settled.team_id, settled.stream, settled.id)
      and refetch.asked <> settled.asked`.execute(db)
}

/**
 * Makes each row due again in so many milliseconds; `counted` is the outcome of its request. It locks rows in the order in
 * which `requestRefetches` writes them.
 */
export async function postpone(
  db: Kysely<Warehouse>,
  rows: readonly DueRow[],
  milliseconds: (row: DueRow) => number,
  counted: 'attempt' | 'failure' | 'nothing' = 'attempt',
): Promise<void> {
  if (rows.length === 0) return
  await sql`
    with put_off as (
      select refetch.team_id, refetch.stream, refetch.id, given.milliseconds
      from unnest(${teams(rows)}::smallint[], ${streams(rows)}::text[], ${ids(rows)}::text[], ${rows.map(milliseconds)}::int[])
        as given (team_id, stream, id, milliseconds)
      join intake_ops.refetches refetch using (team_id, stream, id)
      order by refetch.team_id, refetch.stream, refetch.id for update of refetch
    )
    update intake_ops.refetches refetch
    set attempts = attempts + ${counted === 'attempt' ? 1 : 0}, failures = failures + ${counted === 'failure' ? 1 : 0},
      due_at = now() + put_off.milliseconds * interval '1 millisecond'
    from put_off
    where (refetch.team_id, refetch.stream, refetch.id) = (put_off.team_id, put_off.stream, put_off.id)`.execute(
    db,
  )
}

/** The event that first requested it, marked as a refetch. */
export function originOf({ origin }: DueRow): string {
  return `${origin} refetch`
}

/** Milliseconds before a record is fetched again that lost, could not be fetched or was not found. */
const BACKOFF = { least: 1_000, most: 600_000 } as const

export function pauseBefore({ attempts, failures }: DueRow): number {
  return Math.min(BACKOFF.least * 2 ** Math.min(attempts + failures, 20), BACKOFF.most)
}

const teams = (rows: readonly DueRow[]) => rows.map((row) => row.teamId)
const streams = (rows: readonly DueRow[]) => rows.map((row) => row.stream)
const ids = (rows: readonly DueRow[]) => rows.map((row) => row.id)
