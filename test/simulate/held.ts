/** What the warehouse holds of a team: each state in `intake_raw`, those that were superseded too. */
import type { SimulatedStream } from './history.ts'
import type { Lane, Team } from './lane.ts'

export interface Held {
  readonly stream: SimulatedStream
  readonly id: string
  /** Microseconds since 1970. */
  readonly version: number
  readonly observed: number
  readonly deleted: boolean
  readonly hash: string
  readonly origin: string
  readonly payload: unknown
  readonly superseded: boolean
}

export async function heldOf(lane: Lane, { teamId }: Team): Promise<readonly Held[]> {
  const columns = (
    superseded: boolean,
  ) => `stream, id, (extract(epoch from version) * 1000000)::float8 as version,
    (extract(epoch from observed_at) * 1000000)::float8 as observed, deleted, encode(hash, 'hex') as hash, origin,
    payload, ${superseded} as superseded`
  return await lane.query<Held>(
    `select ${columns(false)} from intake_raw.records where team_id = $1
     union all select ${columns(true)} from intake_raw.record_history where team_id = $1`,
    [teamId],
  )
}

/** Of each record the state that stands, by `keyOf`. */
export function standing(rows: readonly Held[]): ReadonlyMap<string, Held> {
  return new Map(rows.flatMap((row) => (row.superseded ? [] : [[keyOf(row.stream, row.id), row]])))
}

export function keyOf(stream: SimulatedStream, id: string): string {
  return `${stream} ${id}`
}

/** The order in which the merge has them: packet responses, which nobody can fetch, by their own stamps. */
export function isBefore(a: Held, b: Held): boolean {
  const [updatedA, updatedB] = [stampOf(a), stampOf(b)]
  if (updatedA !== null && updatedB !== null) {
    if (updatedA !== updatedB) return updatedA < updatedB
    return a.observed === b.observed ? a.hash < b.hash : a.observed < b.observed
  }
  if (a.version !== b.version) return a.version < b.version
  if (a.deleted !== b.deleted) return b.deleted
  if (a.observed !== b.observed) return a.observed < b.observed
  return a.hash < b.hash
}

/** As the emulator writes it, with microseconds: text is compared. */
function stampOf({ stream, payload }: Held): string | null {
  if (stream !== 'packet_responses') return null
  return (payload as { updated_at: string } | null)?.updated_at ?? null
}
