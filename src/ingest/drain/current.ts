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

/**
 * Keys, as `team/source/id`, of earlier events that are still pending, taken by another drain or to be retried later.
 * Conflicts are found by the order of arrival, which loading a later event before them would lose. Only events of the
 * same team count: a batch may leave out any number of another team's.
 */
export async function overtaken(session: Session, rows: readonly InboxRow[]): Promise<ReadonlySet<string>> {
  const { rows: found } = await session.client.query<{ key: string }>({
    name: 'drain overtaken',
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
