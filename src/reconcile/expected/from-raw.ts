/**
 * The records of intake_raw as envelopes, in portions ordered by id.
 *
 * Invariant: mapping an envelope gives the rows that loading its record gave: if rows depend on the order of keys or on
 * digits that jsonb does not keep, the envelope has the stored original text.
 */
import { sql } from 'kysely'
import type { Envelope, Problem, StreamName } from '../../core/envelope.ts'
import { IntakeError } from '../../core/errors.ts'
import { type JsonObject, parseText } from '../../core/json.ts'
import type { Instant } from '../../core/time.ts'
import type { Session } from '../../warehouse/connect.ts'

/** Records and bytes of a portion. */
const MAX_RECORDS = 2_500
const MAX_BYTES = 4_000_000

export interface Portion {
  readonly envelopes: readonly Envelope[]
  /** The last id, or null if nothing follows. */
  readonly to: string | null
}

interface StoredRecord {
  readonly id: string
  readonly version: Instant
  readonly observedAt: Instant
  readonly updatedAt: Instant | null
  readonly deleted: boolean
  readonly hash: string
  readonly origin: string
  readonly body: string | null
  readonly problems: string | null
}

const INSTANT = sql.lit('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

const RECORD_COLUMNS = sql`
  id, to_char(version, ${INSTANT}) as version, to_char(observed_at, ${INSTANT}) as "observedAt",
  to_char(updated_at, ${INSTANT}) as "updatedAt", deleted,
  encode(hash, 'hex') as hash, origin, coalesce(as_it_came, payload::text) as body, problems::text as problems`

/** The portion that follows the id `after`. */
export async function nextPortion(
  { db }: Session,
  { teamId, stream }: { readonly teamId: number; readonly stream: StreamName },
  after: string | null,
): Promise<Portion> {
  const { rows } = await sql<StoredRecord & { isLast: boolean }>`
    with portion as materialized (
      select ${RECORD_COLUMNS} from intake_raw.records
      where team_id = ${teamId} and stream = ${stream} and (${after}::text is null or id > ${after})
      order by id limit ${MAX_RECORDS + 1}
    ), sized as (
      select portion.*, row_number() over by_id as number,
        sum(coalesce(octet_length(body), 0)) over by_id - coalesce(octet_length(body), 0) as before
      from portion window by_id as (order by id rows unbounded preceding)
    )
    select id, version, "observedAt", "updatedAt", deleted, hash, origin, body, problems,
      number = (select max(number) from sized) and number <= ${MAX_RECORDS} as "isLast"
    from sized
    where before < ${MAX_BYTES} and number <= ${MAX_RECORDS}
    order by number`.execute(db)
  const last = rows.at(-1)
  return {
    envelopes: rows.map((row) => envelopeOf(row, teamId, stream)),
    to: last === undefined || last.isLast ? null : last.id,
  }
}

/** The stored records with these ids. */
export async function recordsOf(
  { db }: Session,
  { teamId, stream }: { readonly teamId: number; readonly stream: StreamName },
  ids: readonly string[],
): Promise<readonly Envelope[]> {
  const { rows } = await sql<StoredRecord>`
    select current.* from (select distinct id from unnest(${ids}::text[]) as id) wanted
    cross join lateral (
      select ${RECORD_COLUMNS} from intake_raw.records stored
      where team_id = ${teamId} and stream = ${stream} and stored.id = wanted.id
      offset 0
    ) current
    order by current.id`.execute(db)
  return rows.map((row) => envelopeOf(row, teamId, stream))
}

function envelopeOf(stored: StoredRecord, teamId: number, stream: StreamName): Envelope {
  const { id, version, observedAt, updatedAt, origin, hash } = stored
  const keys = { teamId, stream, id, version, observedAt, updatedAt, origin }
  if (stored.deleted) return { ...keys, content: null }
  if (stored.body === null) {
    throw new IntakeError(
      `intake_raw.records holds a record of ${stream} that is not deleted and has no payload`,
      {
        code: 'payload_missing',
        verdict: 'stop',
        hint: 'fetch it again: intake-sync verify --repair',
      },
    )
  }
  const payload = parseText(stored.body) as JsonObject
  const problems = stored.problems === null ? [] : (parseText(stored.problems) as readonly Problem[])
  return { ...keys, content: { payload, text: stored.body, asReceived: null, hash, problems } }
}
