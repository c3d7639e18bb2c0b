/**
 * Packet responses, which cannot be fetched by id: events are their only source.
 *
 * - the shown row and members of one follow from its payload, computed without the declarations of `src`;
 * - once stored as submitted it is never shown as less, unless it is deleted;
 * - at rest the newest acknowledged state is stored: its own fields, because of two renderings of one event, which
 * differ in the packet that they show, the newer is unknown;
 * - at rest every member of one that is stored as submitted, and that still exists, is stored as at the source: submitted,
 * and skipped or not, which only the member itself shows.
 */
import type { World } from '../../src/emulator/world/world.ts'
import { comparable } from './history.ts'
import type { Lane, Team } from './lane.ts'
import type { Acknowledged } from './sender.ts'
import { keyOf, type StoredState } from './stored-states.ts'

/** As in an event (specification, section 2.8). */
interface Shown {
  readonly id: string
  readonly packet: { readonly id: string } | null
  readonly is_submitted: boolean
  readonly submitted_at: string | null
  readonly is_archived: boolean
  readonly form_index: number | null
  readonly is_queued: boolean
  readonly created_at: string
  readonly updated_at: string
  readonly responses: readonly string[]
}

type Note = (fault: string) => void

const COLUMNS = [
  ...['packet_id', 'is_submitted', 'submitted_at', 'is_archived', 'form_index', 'is_queued', 'activity'],
  ...['created_at', 'updated_at'],
]

export function openPacketJudge(lane: Lane, team: Team, world: World) {
  const submitted = new Set<string>()

  /** Holds at any time. */
  async function look(rows: readonly StoredState[], note: Note): Promise<void> {
    const live = livePackets(rows)
    for (const { id, payload } of live) {
      const { is_submitted } = payload as Shown
      if (is_submitted) submitted.add(id)
      else if (submitted.has(id)) note(`packet response ${id} was submitted, and is shown as less`)
    }
    const shown = await lane.query<{ id: string; row: Record<string, unknown>; members: unknown }>(
      `select root.id, to_jsonb(root) as row,
         (select coalesce(jsonb_agg(jsonb_build_array(position, response_id) order by position), '[]')
          from intake.packet_response_members member
          where member.team_id = root.team_id and member.packet_response_id = root.id) as members
       from intake.packet_responses root where team_id = $1`,
      [team.teamId],
    )
    const payloads = new Map(live.map(({ id, payload }) => [id, payload as Shown]))
    for (const { id, row, members } of shown) {
      const payload = payloads.get(id)
      const wanted = payload === undefined ? COLUMNS.map(() => null) : cellsOf(payload)
      const found = COLUMNS.map((column) => row[column])
      if (JSON.stringify(found) !== JSON.stringify(wanted))
        note(
          `packet response ${id}: shown as ${JSON.stringify(found)}, expected as ${JSON.stringify(wanted)}`,
        )
      const inOrder = (payload?.responses ?? []).map((member, at) => [at + 1, member])
      if (JSON.stringify(members) !== JSON.stringify(inOrder))
        note(`packet response ${id}: its members are not those of its payload`)
    }
  }

  function atRest(rows: readonly StoredState[], acknowledged: readonly Acknowledged[], note: Note): void {
    const current = new Map(rows.flatMap((row) => (row.superseded ? [] : [[keyOf(row.stream, row.id), row]])))
    for (const [id, newest] of newestOf(acknowledged)) {
      const row = current.get(keyOf('packet_responses', id))
      const own = row === undefined || row.deleted ? null : ownPart(row.payload as Shown)
      const isNewest = newest === null ? row?.deleted === true : own === ownPart(newest)
      if (!isNewest) note(`packet response ${id} is not stored in its newest acknowledged state`)
    }
    for (const { payload } of livePackets(rows)) {
      const { is_submitted, responses } = payload as Shown
      for (const id of is_submitted ? responses : []) {
        const member = world.responses.get(id)
        if (member === undefined) continue
        const row = current.get(keyOf('responses', id))
        const state = row?.deleted === false ? (row.payload as Record<string, unknown>) : null
        if (state?.is_submitted !== true || state.is_skipped !== member.is_skipped)
          note(`responses ${id}: member of a submitted packet, and not stored as at the source`)
      }
    }
  }
  return { look, atRest }
}

/** The newest acknowledged state of each packet response; null for a deleted one, which stays deleted. */
function newestOf(acknowledged: readonly Acknowledged[]): ReadonlyMap<string, Shown | null> {
  const newest = new Map<string, Shown | null>()
  for (const { stream, id, type, data } of acknowledged) {
    if (stream !== 'packet_responses') continue
    const known = newest.get(id)
    if (type === 'deleted') newest.set(id, null)
    else if (known === undefined || (known !== null && known.updated_at <= (data as Shown).updated_at))
      newest.set(id, data as Shown)
  }
  return newest
}

function livePackets(rows: readonly StoredState[]): readonly StoredState[] {
  return rows.filter((row) => row.stream === 'packet_responses' && !row.superseded && !row.deleted)
}

function ownPart({ packet, ...own }: Shown): string {
  return comparable(own)
}

function cellsOf(shown: Shown): readonly unknown[] {
  const { packet, is_submitted, form_index } = shown
  const activity = is_submitted ? 'submitted' : (form_index ?? 0) > 0 ? 'progress' : 'setup'
  const times = [shown.created_at, shown.updated_at].map(timeOf)
  const fields = [is_submitted, timeOf(shown.submitted_at), shown.is_archived, form_index, shown.is_queued]
  return [packet?.id ?? null, ...fields, activity, ...times]
}

/** As Postgres writes it into JSON: without trailing zeros in the fraction. */
function timeOf(stamp: string | null): string | null {
  return stamp === null ? null : `${stamp.replace(/(?:\.0+|(\.\d*?)0+)?Z$/, '$1')}+00:00`
}
