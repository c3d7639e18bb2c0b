/** The stored states of a team: each state in `intake_raw`, superseded ones included. */
import type { SimulatedStream } from './history.ts'
import type { Lane, Team } from './lane.ts'

export interface StoredState {
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

export async function statesOf(lane: Lane, { teamId }: Team): Promise<readonly StoredState[]> {
  const columns = (
    superseded: boolean,
  ) => `stream, id, (extract(epoch from version) * 1000000)::float8 as version,
    (extract(epoch from observed_at) * 1000000)::float8 as observed, deleted, encode(hash, 'hex') as hash, origin,
    payload, ${superseded} as superseded`
  return await lane.query<StoredState>(
    `select ${columns(false)} from intake_raw.records where team_id = $1
     union all select ${columns(true)} from intake_raw.record_history where team_id = $1`,
    [teamId],
  )
}

/** The current state of each record, by `keyOf`. */
export function standing(rows: readonly StoredState[]): ReadonlyMap<string, StoredState> {
  return new Map(rows.flatMap((row) => (row.superseded ? [] : [[keyOf(row.stream, row.id), row]])))
}

export function keyOf(stream: SimulatedStream, id: string): string {
  return `${stream} ${id}`
}

/** The order of the merge: packet responses, which cannot be fetched by id, by their own stamps. */
export function isBefore(a: StoredState, b: StoredState): boolean {
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

/** As the emulator writes it, with microseconds: the text is compared. */
function stampOf({ stream, payload }: StoredState): string | null {
  if (stream !== 'packet_responses') return null
  return (payload as { updated_at: string } | null)?.updated_at ?? null
}
