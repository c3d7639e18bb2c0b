/**
 * Compares a batch of events with the stored state: which records may be partial, and which keys have earlier events that
 * are still pending.
 *
 * Invariant: reads only, within the transaction that loads the batch. Each look-up is by key, whatever the statistics.
 */
import { sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import type { Content, Envelope } from '../../core/envelope.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { keyOf } from './gather.ts'
import type { InboxRow } from './inbox-rows.ts'
import { lacksMostFields, lacksStoredValues, lacksUsualFields } from './read-event.ts'

/** Fields that all records of a team's stream have, judged by a sample; teams without a stored record are left out. */
export interface UsualFields {
  of(
    session: Session,
    stream: Stream,
    teamIds: readonly number[],
  ): Promise<ReadonlyMap<number, readonly string[]>>
}

const SAMPLE = 20
/** Records considered for the sample: few of them are to be fetched, unless everything is new. */
const CANDIDATES = 200
const REMEMBERED_MICROS = 60_000_000

export function openUsualFields(clock: Clock): UsualFields {
  const known = new Map<string, { readonly at: number; readonly fields: readonly string[] }>()
  return {
    async of(session, stream, teamIds) {
      const cacheKey = (teamId: number) => `${teamId}/${stream.name}`
      const isFresh = (teamId: number) =>
        clock.now() - (known.get(cacheKey(teamId))?.at ?? Number.NEGATIVE_INFINITY) < REMEMBERED_MICROS
      const stale = teamIds.filter((teamId) => !isFresh(teamId))
      for (const [teamId, samples] of await sampleFields(session, stream, stale)) {
        const [first, ...rest] = samples
        const fields = first!.filter((field) => rest.every((each) => each.includes(field)))
        known.set(cacheKey(teamId), { at: clock.now(), fields })
      }
      return new Map(
        teamIds.flatMap((teamId) => {
          const fields = isFresh(teamId) ? known.get(cacheKey(teamId))?.fields : undefined
          return fields === undefined ? [] : [[teamId, fields] as const]
        }),
      )
    },
  }
}

/** The fields of a few records of each team. */
async function sampleFields(
  session: Session,
  stream: Stream,
  teamIds: readonly number[],
): Promise<ReadonlyMap<number, readonly string[][]>> {
  const samples = new Map<number, string[][]>()
  if (teamIds.length === 0) return samples
  const { rows } = await sql<{ team_id: number; fields: string[] }>`
    select team.id as team_id, sample.fields from unnest(${[...teamIds]}::smallint[]) as team (id)
    cross join lateral (
      select array(select jsonb_object_keys(payload)) as fields from (
        select id, payload from intake_raw.records
        where team_id = team.id and stream = ${stream.name} and not deleted
        order by id limit ${CANDIDATES}
      ) stored
      -- A record that is still to be fetched may have been stored from a partial event.
      where (
        select true from intake_ops.refetches refetch
        where refetch.team_id = team.id and refetch.stream = ${stream.name} and refetch.id = stored.id limit 1
      ) is null
      limit ${SAMPLE}
    ) sample`.execute(session.db)
  for (const { team_id, fields } of rows) samples.set(team_id, [...(samples.get(team_id) ?? []), fields])
  return samples
}

/** Keys (`keyOf`) of records that are to be fetched because their event may be partial. */
export interface Incomplete {
  /** Loading them would replace stored values by null: they are not loaded. */
  readonly losing: ReadonlySet<string>
  /** New, with fewer fields than other records of their stream: they are loaded as they are, since nothing is lost. */
  readonly sparse: ReadonlySet<string>
}

export async function incomplete(
  session: Session,
  usual: UsualFields,
  stream: Stream,
  envelopes: readonly Envelope[],
): Promise<Incomplete> {
  const losing = new Set<string>()
  const sparse = new Set<string>()
  const records = envelopes.flatMap(({ teamId, id, content }) =>
    content === null ? [] : [{ teamId, id, key: keyOf({ teamId, id }), content }],
  )
  if (records.length === 0) return { losing, sparse }
  const beyond = await currentBeyond(session, stream, records)
  for (const [key, rest] of beyond) if (rest !== null && lacksStoredValues(rest)) losing.add(key)
  const isNew = records.filter(({ key }) => !beyond.has(key))
  const fields = await usual.of(session, stream, [...new Set(isNew.map(({ teamId }) => teamId))])
  for (const { teamId, key, content } of isNew) {
    const usualFields = fields.get(teamId)
    const { payload } = content
    if (usualFields === undefined ? lacksMostFields(stream, payload) : lacksUsualFields(payload, usualFields))
      sparse.add(key)
  }
  return { losing, sparse }
}

interface IncomingRecord {
  readonly teamId: number
  readonly id: string
  readonly content: Content
}

/**
 * By key of each record that is stored alive, the fields of the current state that the incoming one leaves out; null
 * where it leaves out none.
 */
async function currentBeyond(
  session: Session,
  stream: Stream,
  records: readonly IncomingRecord[],
): Promise<ReadonlyMap<string, JsonObject | null>> {
  const shapes = new Map<string, number>()
  const places = records.map(({ content }) => {
    const fields = JSON.stringify(Object.keys(content.payload))
    const place = shapes.get(fields) ?? shapes.size + 1
    shapes.set(fields, place)
    return place
  })
  const { rows } = await session.client.query<{ teamId: number; id: string; rest: JsonObject | null }>({
    name: 'drain current',
    text: `
      with shape as materialized (
        select place, array(select jsonb_array_elements_text(fields)) as fields
        from jsonb_array_elements($4::jsonb) with ordinality as shape (fields, place)
      )
      select incoming.team_id as "teamId", incoming.id, nullif(current.payload - shape.fields, '{}') as rest
      from unnest($1::smallint[], $2::text[], $5::int[]) as incoming (team_id, id, place)
      join shape using (place)
      -- Each by its key: in a join the planner would read the whole table.
      cross join lateral (
        select payload from intake_raw.records current
        where current.team_id = incoming.team_id and current.stream = $3 and current.id = incoming.id
          and not current.deleted
        offset 0
      ) current`,
    values: [
      records.map(({ teamId }) => teamId),
      records.map(({ id }) => id),
      stream.name,
      `[${[...shapes.keys()].join()}]`,
      places,
    ],
  })
  return new Map(rows.map((row) => [keyOf(row), row.rest]))
}

/** How many pending events of a record a look-up reads beyond those of the batch; few records have more. */
const FURTHER = 20

/**
 * Keys, as `team/source/id`, of earlier events that are still pending, taken by another drain or to be retried later.
 * Conflicts are found by the order of arrival, which loading a later event before them would lose. Only events of the
 * same team count: a batch may leave out any number of another team's.
 *
 * Looks up each record from the oldest day of the batch on: a search for all earlier events would also read the index
 * entries of settled ones, which Postgres keeps while another session has an old snapshot.
 */
export async function overtaken(session: Session, rows: readonly InboxRow[]): Promise<ReadonlySet<string>> {
  const last = new Map(rows.map(({ teamId, seq }) => [teamId, seq]))
  const counts = new Map<string, { readonly row: InboxRow; own: number }>()
  for (const row of rows) {
    // Neither a source nor an id contains NUL, which Postgres cannot store.
    const key = `${row.teamId}\0${row.source}\0${row.recordId}`
    const count = counts.get(key) ?? { row, own: 0 }
    count.own += 1
    counts.set(key, count)
  }
  const records = [...counts.values()].filter(({ row }) => row.source !== null && row.recordId !== null)
  const { rows: found } = await session.client.query<{ key: string; passed: boolean }>({
    name: 'drain overtaken',
    // All events of the batch are pending and locked, so a greater count includes others.
    text: `
      select format('%s/%s/%s', record.team_id, record.source, record.id) as key, pending.earlier > record.own as passed
      from unnest($1::smallint[], $2::text[], $3::text[], $4::int[], $5::bigint[]) as record (team_id, source, id, own, last)
      cross join lateral (
        select count(*) as events, count(*) filter (where seq <= record.last) as earlier from (
          select seq from intake_raw.inbox
          where status = 'pending' and team_id = record.team_id and source = record.source and record_id = record.id
            and received_on >= $6
          limit record.own + ${FURTHER}
        ) as inbox
      ) as pending
      where pending.earlier > record.own or pending.events >= record.own + ${FURTHER}
      union all
      select format('%s/%s/%s', inbox.team_id, inbox.source, inbox.record_id), true
      from unnest($7::smallint[], $8::bigint[]) as last (team_id, seq)
      cross join lateral (
        select team_id, source, record_id from intake_raw.inbox
        where status = 'pending' and team_id = last.team_id and seq <= last.seq and received_on < $6
        offset 0
      ) as inbox
      where inbox.source is not null and inbox.record_id is not null`,
    values: [
      records.map(({ row }) => row.teamId),
      records.map(({ row }) => row.source),
      records.map(({ row }) => row.recordId),
      records.map(({ own }) => own),
      records.map(({ row }) => last.get(row.teamId)),
      rows.map(({ receivedOn }) => receivedOn).sort()[0],
      [...last.keys()],
      [...last.values()],
    ],
  })
  if (found.every(({ passed }) => passed)) return new Set(found.map(({ key }) => key))
  return await overtakenOfMany(session, rows)
}

/** The same for records with any number of pending events: reads all events of the teams up to the last of the batch. */
async function overtakenOfMany(session: Session, rows: readonly InboxRow[]): Promise<ReadonlySet<string>> {
  const { rows: found } = await session.client.query<{ key: string }>({
    name: 'drain overtaken of many',
    // Nearly always the batch contains all earlier events, and counting them proves it.
    text: `
      with mine as materialized (
        select * from unnest($1::smallint[], $2::bigint[]) as mine (team_id, seq)
      ), last as materialized (
        select team_id, max(seq) as seq from mine group by team_id
      ), earlier as materialized (
        select inbox.* from last
        cross join lateral (
          select team_id, seq, source, record_id from intake_raw.inbox
          where status = 'pending' and team_id = last.team_id and seq <= last.seq
        ) as inbox
      )
      select format('%s/%s/%s', team_id, source, record_id) as key from earlier
      where (select count(*) from earlier) > (select count(*) from mine)
        and not exists (select from mine where mine.seq = earlier.seq)
        and source is not null and record_id is not null`,
    values: [rows.map((row) => row.teamId), rows.map((row) => row.seq)],
  })
  return new Set(found.map((row) => row.key))
}
