/**
 * Takes rows of the inbox, and settles them.
 *
 * Invariant: a row is taken under a lock that lasts as long as the transaction, so that several processes share one
 * inbox and a process that dies blocks nothing; it is settled in the transaction that commits its effect (law 3).
 */
import { sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import type { StoredEvent } from './read-event.ts'
import type { StartOf } from './search-start.ts'

export interface InboxRow extends StoredEvent {
  /** Order of storing. */
  readonly seq: string
  /** Its partition, as `YYYY-MM-DD`. */
  readonly receivedOn: string
  /** How often loading it failed. */
  readonly attempts: number
  /** As read by the ingester. */
  readonly source: string | null
  readonly recordId: string | null
}

/** Bytes of the bodies of a batch; one event of any size is always taken. */
const MAX_BYTES = 8_000_000

const COLUMNS = `
  seq, team_id as "teamId", event_id as "eventId", received_on::text as "receivedOn", attempts, source, record_id as "recordId",
  body, to_char(received_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "receivedAt"`

/**
 * Takes due events of these teams that no other process has taken: the earliest of each team, and no team more than its
 * share of the batch while others have events too, in the order of `seq`. Returns a few more than `most` where the teams
 * are many.
 */
export async function takeDue(
  session: Session,
  teamIds: readonly number[],
  most: number,
  startOf: StartOf = () => '0',
): Promise<readonly InboxRow[]> {
  const rows: InboxRow[] = []
  let bytes = 0
  const places = teamIds.map((teamId): TeamPlace => ({ teamId, after: startOf(teamId) }))
  let teams = places.length > 1 ? await withDueEvents(session, places) : places
  while (teams.length > 0 && rows.length < most && bytes < MAX_BYTES) {
    const share = Math.ceil((most - rows.length) / teams.length)
    const part = await takeShares(session, teams, share, MAX_BYTES - bytes)
    rows.push(...part)
    for (const { body } of part) bytes += body.length
    // The unused share of teams with few events goes to teams with more.
    teams = teams.flatMap(({ teamId }) => {
      const ofTeam = part.filter((row) => row.teamId === teamId)
      return ofTeam.length < share ? [] : [{ teamId, after: ofTeam.at(-1)!.seq }]
    })
  }
  return rows.sort((a, b) => Number(a.seq) - Number(b.seq))
}

/** Of these teams, those that are not removed and have events that are due. */
async function withDueEvents(session: Session, teams: readonly TeamPlace[]): Promise<readonly TeamPlace[]> {
  const { rows } = await session.client.query<TeamPlace>({
    name: 'drain teams',
    text: `
      select team.id as "teamId", team.after::text as after from unnest($1::smallint[], $2::bigint[]) as team (id, after)
      cross join lateral (
        select from intake_raw.inbox
        where status = 'pending' and team_id = team.id and seq > team.after and (due_at is null or due_at <= now())
        limit 1
      ) as due
      where not exists (select from intake_ops.removed_teams removed where removed.team_id = team.id)`,
    values: [teams.map((team) => team.teamId), teams.map((team) => team.after)],
  })
  return rows
}

interface TeamPlace {
  readonly teamId: number
  /** Events that were stored later than this one. */
  readonly after: string
}

/** Reads the index team by team: events of other teams, and of removed teams, are not read. */
export const TAKE_SHARES = `
  with due as materialized (
    select event.* from (
      select id, after from unnest($1::smallint[], $2::bigint[]) as team (id, after)
      where not exists (select from intake_ops.removed_teams removed where removed.team_id = team.id)
    ) as team
    cross join lateral (
      select seq, team_id, event_id, received_on, received_at, attempts, source, record_id, body
      from intake_raw.inbox
      where status = 'pending' and team_id = team.id and seq > team.after
        and (due_at is null or due_at <= now())
      order by seq limit $3 for update skip locked
    ) as event
  ), placed as (
    select *, row_number() over (partition by team_id order by seq) as place from due
  )
  select ${COLUMNS}
  from (select *, sum(octet_length(body)) over (order by place, seq) - octet_length(body) as before from placed) as due
  where before < $4 order by due.seq`

async function takeShares(
  session: Session,
  teams: readonly TeamPlace[],
  share: number,
  bytes: number,
): Promise<readonly InboxRow[]> {
  const { rows } = await session.client.query<InboxRow>({
    name: 'drain take',
    text: TAKE_SHARES,
    values: [teams.map((team) => team.teamId), teams.map((team) => team.after), share, bytes],
  })
  return rows
}

/** True when a batch may have left events that are due. */
export function isFull(rows: readonly InboxRow[], most: number): boolean {
  return rows.length >= most || rows.reduce((bytes, row) => bytes + row.body.length, 0) >= MAX_BYTES
}

/** Takes these events again, except those that another process has taken or settled. */
export async function takeThese(session: Session, seqs: readonly string[]): Promise<readonly InboxRow[]> {
  const { rows } = await session.client.query<InboxRow>(
    `select ${COLUMNS} from intake_raw.inbox
     where status = 'pending' and seq = any ($1::bigint[]) order by seq for update skip locked`,
    [seqs],
  )
  return rows
}

export interface SettledEvent {
  readonly seq: string
  /** From its arrival to now, in the clock of the warehouse. */
  readonly seconds: number
}

export async function settle(
  session: Session,
  rows: readonly InboxRow[],
  status: 'done' | 'dead',
): Promise<readonly SettledEvent[]> {
  if (rows.length === 0) return []
  const { rows: settled } = await session.client.query<SettledEvent>({
    name: 'drain settle',
    text: `
      update intake_raw.inbox set status = $1, settled_at = clock_timestamp(), due_at = null
      where status = 'pending' and seq = any ($2::bigint[]) and received_on = any ($3::date[])
      returning seq, extract(epoch from clock_timestamp() - received_at)::float8 as seconds`,
    values: [status, rows.map((row) => row.seq), daysOf(rows)],
  })
  return settled
}

/** Deletes events, including their bytes. */
export async function remove({ client }: Session, rows: readonly InboxRow[]): Promise<void> {
  await client.query(
    'delete from intake_raw.inbox where seq = any ($1::bigint[]) and received_on = any ($2::date[])',
    [rows.map((row) => row.seq), daysOf(rows)],
  )
}

/** Keeps an event that could not be loaded pending, and due in `milliseconds`. */
export async function postpone(session: Session, row: InboxRow, milliseconds: number): Promise<void> {
  await sql`
    update intake_raw.inbox
    set attempts = attempts + 1, due_at = now() + ${milliseconds} * interval '1 millisecond'
    where status = 'pending' and seq = ${row.seq} and received_on = ${row.receivedOn}`.execute(session.db)
}

/** True when an event of these teams is pending and due, taken or not. */
export async function isAnyDue(session: Session, teamIds: readonly number[]): Promise<boolean> {
  const places = teamIds.map((teamId): TeamPlace => ({ teamId, after: '0' }))
  return (await withDueEvents(session, places)).length > 0
}

function daysOf(rows: readonly InboxRow[]): readonly string[] {
  return [...new Set(rows.map((row) => row.receivedOn))]
}
