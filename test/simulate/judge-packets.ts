/**
 * Packet responses, which nobody can be asked for: what events told of them is all there is.
 *
 * - what is shown of one, its members too, is what its payload says, worked out without the declarations of `src`;
 * - once held as submitted it is never shown as less, unless it is deleted;
 * - at rest it is held as the newest that was acknowledged tells: of its own fields, since of two renderings of one
 *   event, which differ in the packet that they show, nobody can tell the newer;
 * - at rest every member of one that is held as submitted, and that is there still, is held as the source has it:
 *   submitted, and skipped or not, which only the member itself says.
 */
import type { World } from '../../src/emulator/world/world.ts'
import { type Held, keyOf } from './held.ts'
import { comparable } from './history.ts'
import type { Lane, Team } from './lane.ts'
import type { Acknowledged } from './sender.ts'

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

  /** True at any moment. */
  async function look(rows: readonly Held[], note: Note): Promise<void> {
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
        note(`packet response ${id}: shown as ${JSON.stringify(found)}, told as ${JSON.stringify(wanted)}`)
      const inOrder = (payload?.responses ?? []).map((member, at) => [at + 1, member])
      if (JSON.stringify(members) !== JSON.stringify(inOrder))
        note(`packet response ${id}: its members are not those of its payload`)
    }
  }

  function atRest(rows: readonly Held[], told: readonly Acknowledged[], note: Note): void {
    const held = new Map(rows.flatMap((row) => (row.superseded ? [] : [[keyOf(row.stream, row.id), row]])))
    for (const [id, newest] of newestOf(told)) {
      const row = held.get(keyOf('packet_responses', id))
      const own = row === undefined || row.deleted ? null : ownPart(row.payload as Shown)
      const isAsTold = newest === null ? row?.deleted === true : own === ownPart(newest)
      if (!isAsTold) note(`packet response ${id} is not held as the newest that was acknowledged tells`)
    }
    for (const { payload } of livePackets(rows)) {
      const { is_submitted, responses } = payload as Shown
      for (const id of is_submitted ? responses : []) {
        const member = world.responses.get(id)
        if (member === undefined) continue
        const row = held.get(keyOf('responses', id))
        const state = row?.deleted === false ? (row.payload as Record<string, unknown>) : null
        if (state?.is_submitted !== true || state.is_skipped !== member.is_skipped)
          note(`responses ${id}: member of a submitted packet, and not held as the source has it`)
      }
    }
  }
  return { look, atRest }
}

/** Of each packet response the newest state told; null for one that was told to be deleted, which is for ever. */
function newestOf(told: readonly Acknowledged[]): ReadonlyMap<string, Shown | null> {
  const newest = new Map<string, Shown | null>()
  for (const { stream, id, type, data } of told) {
    if (stream !== 'packet_responses') continue
    const known = newest.get(id)
    if (type === 'deleted') newest.set(id, null)
    else if (known === undefined || (known !== null && known.updated_at <= (data as Shown).updated_at))
      newest.set(id, data as Shown)
  }
  return newest
}

function livePackets(rows: readonly Held[]): readonly Held[] {
  return rows.filter((row) => row.stream === 'packet_responses' && !row.superseded && !row.deleted)
}

function ownPart({ packet, ...own }: Shown): string {
  return comparable(own)
}

function cellsOf(shown: Shown): readonly unknown[] {
  const { packet, is_submitted, form_index } = shown
  const activity = is_submitted ? 'submitted' : (form_index ?? 0) > 0 ? 'progress' : 'setup'
  const times = [shown.created_at, shown.updated_at].map(timeOf)
  const told = [is_submitted, timeOf(shown.submitted_at), shown.is_archived, form_index, shown.is_queued]
  return [packet?.id ?? null, ...told, activity, ...times]
}

/** As Postgres writes it into JSON: without zeros at the end of the fraction. */
function timeOf(stamp: string | null): string | null {
  return stamp === null ? null : `${stamp.replace(/(?:\.0+|(\.\d*?)0+)?Z$/, '$1')}+00:00`
}
