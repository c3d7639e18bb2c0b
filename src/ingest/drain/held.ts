/**
 * What the warehouse holds that an event is measured by: which of a batch's records may not be whole, and which keys
 * are spoken for by events that wait elsewhere.
 *
 * Invariant: reads only, within the transaction that loads the batch.
 */
import { sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import type { Envelope } from '../../core/envelope.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { InboxRow } from './inbox-rows.ts'
import { missesMost, missesUsual, missesValues } from './thin.ts'

/** Fields that all records of a stream have, as far as a few of them tell; null where none is held. */
export interface UsualFields {
  of(session: Session, teamId: number, stream: Stream): Promise<readonly string[] | null>
}

const SAMPLE = 20
const REMEMBERED_MICROS = 60_000_000

export function openUsualFields(clock: Clock): UsualFields {
  const known = new Map<string, { readonly at: number; readonly fields: readonly string[] }>()
  return {
    async of(session, teamId, stream) {
      const key = `${teamId}/${stream.name}`
      const remembered = known.get(key)
      if (remembered !== undefined && clock.now() - remembered.at < REMEMBERED_MICROS)
        return remembered.fields
      const { rows } = await sql<{ fields: string[] }>`
        select array(select jsonb_object_keys(payload)) as fields from intake_raw.records
        where team_id = ${teamId} and stream = ${stream.name} and not deleted limit ${SAMPLE}`.execute(
        session.db,
      )
      const [first, ...rest] = rows.map((row) => row.fields)
      if (first === undefined) return null
      const fields = first.filter((field) => rest.every((each) => each.includes(field)))
      known.set(key, { at: clock.now(), fields })
      return fields
    },
  }
}

/** Ids of records that are to be asked for because an event may not hold them whole. */
export interface Incomplete {
  /** Loading them would null values that are held: they are not loaded. */
  readonly losing: ReadonlySet<string>
  /** New, and with fewer fields than others of their stream: they are loaded as far as they go, for nothing is lost. */
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
  const records = envelopes.filter((envelope) => envelope.content !== null)
  const [first] = records
  if (first === undefined) return { losing, sparse }
  const held = await heldBeside(session, first.teamId, stream, records)
  for (const [id, rest] of held) if (rest !== null && missesValues(rest)) losing.add(id)
  const isNew = records.filter((envelope) => !held.has(envelope.id))
  if (isNew.length === 0) return { losing, sparse }
  const fields = await usual.of(session, first.teamId, stream)
  for (const { id, content } of isNew) {
    const { payload } = content!
    if (fields === null ? missesMost(stream, payload) : missesUsual(payload, fields)) sparse.add(id)
  }
  return { losing, sparse }
}

/** Of each record that is held alive, the fields that the one that came leaves out; null where it leaves out none. */
async function heldBeside(
  session: Session,
  teamId: number,
  stream: Stream,
  records: readonly Envelope[],
): Promise<ReadonlyMap<string, JsonObject | null>> {
  const shapes = new Map<string, number>()
  const places = records.map(({ content }) => {
    const fields = JSON.stringify(Object.keys(content!.payload))
    const place = shapes.get(fields) ?? shapes.size + 1
    shapes.set(fields, place)
    return place
  })
  const { rows } = await session.client.query<{ id: string; rest: JsonObject | null }>({
    name: 'drain held',
    text: `
      with shape as materialized (
        select place, array(select jsonb_array_elements_text(fields)) as fields
        from jsonb_array_elements($4::jsonb) with ordinality as shape (fields, place)
      )
      select came.id, nullif(held.payload - shape.fields, '{}') as rest
      from unnest($3::text[], $5::int[]) as came (id, place)
      join shape using (place)
      -- Each by its key: of a join the planner would read all that is held.
      cross join lateral (
        select payload from intake_raw.records held
        where held.team_id = $1 and held.stream = $2 and held.id = came.id and not held.deleted
        limit 1
      ) held`,
    values: [teamId, stream.name, records.map((each) => each.id), `[${[...shapes.keys()].join()}]`, places],
  })
  return new Map(rows.map((row) => [row.id, row.rest]))
}

/**
 * Keys, as `team/source/id`, of earlier events that are pending still, in other hands or until they are tried again.
 * Loading a later event before them loses the order in which they arrived, by which doubt is told. Only events of the
 * same team count: of another, a batch may leave out any number.
 */
export async function overtaken(session: Session, rows: readonly InboxRow[]): Promise<ReadonlySet<string>> {
  const { rows: found } = await session.client.query<{ key: string }>({
    name: 'drain overtaken',
    // Nearly always the earlier ones are all of this batch, and counting them is enough to know.
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
