/**
 * Turns the events of a batch into its writes: for each stream one state of each record, over all teams, and the
 * records to fetch, dead letters and findings. Reads nothing but the rows; yields to the event loop, so that an ingester
 * in the same process can answer.
 *
 * Invariant: of several states of a record, the one remains that would remain if they were loaded one by one in the order of
 * arrival, and a record is in conflict where loading them one by one would find a conflict (law 2): a state that
 * lost to, or tied with, other content that arrived before it; a state that won, but whose record was updated earlier.
 * Events that were stored together have no order: where their contents differ, the record is in conflict. A state that
 * lacks values of one before it may be partial and replaces nothing, as if those were stored.
 */
import { setImmediate } from 'node:timers/promises'
import {
  type Envelope,
  type StreamName,
  type StreamOrInbox,
  stampsDisagree,
  supersedes,
} from '../../core/envelope.ts'
import { type Instant, laterOf } from '../../core/time.ts'
import type { RecordKey } from '../../load/merge/write-batch.ts'
import type { RefetchReason, RefetchRequest } from '../../load/refetches.ts'
import { countFinding, type Findings, noFindings } from '../../normalize/lines.ts'
import type { DeadLetter } from '../../normalize/read-record.ts'
import { type Stream, stampsDecide } from '../../streams/stream.ts'
import { lacksStoredValues, readStoredEvent, type StoredEvent } from './read-event.ts'

/** States of one stream, of any number of teams, by `keyOf`. */
export interface Group {
  readonly stream: Stream
  readonly states: Map<string, ArrivedState>
  /** Left out, because they lack values of a state that arrived before them: they may be partial. */
  readonly lacking: Envelope[]
}

/** The state of a record that stays, and when its event was stored. */
export interface ArrivedState {
  readonly envelope: Envelope
  readonly receivedAt: Instant
}

/** Dead letters and findings of a stream, or of the inbox. */
export interface StreamFindings {
  readonly stream: StreamOrInbox
  readonly deadLetters: { readonly teamId: number; readonly deadLetter: DeadLetter }[]
  readonly findings: Findings
}

export interface Gathered<Row> {
  /** In the order of their names, in which every worker writes. */
  readonly groups: readonly Group[]
  readonly noted: readonly StreamFindings[]
  readonly requests: readonly RefetchRequest[]
  /** Rows that are dead-lettered. */
  readonly dead: ReadonlySet<Row>
}

/**
 * Events read, or lines written, between two yields to the event loop, which answers thousands of requests a second.
 */
export const RECORDS_PER_TURN = 50

export function keyOf({ teamId, id }: RecordKey): string {
  return `${teamId}/${id}`
}

export async function gather<Row extends StoredEvent>(
  rows: readonly Row[],
  apiVersionOf: (teamId: number) => string,
): Promise<Gathered<Row>> {
  const groups = new Map<string, Group>()
  const noted = new Map<StreamOrInbox, StreamFindings>()
  const requests: RefetchRequest[] = []
  const dead = new Set<Row>()

  function notedOf(stream: StreamOrInbox): StreamFindings {
    const known = noted.get(stream) ?? { stream, deadLetters: [], findings: noFindings() }
    noted.set(stream, known)
    return known
  }

  for (const [index, row] of rows.entries()) {
    if (index % RECORDS_PER_TURN === RECORDS_PER_TURN - 1) await setImmediate()
    const { teamId } = row
    const { result, drift } = readStoredEvent(row, apiVersionOf(teamId))
    const request = (stream: StreamName, id: string, reason: RefetchReason) =>
      requests.push({ teamId, stream, id, reason, origin: `event:${row.eventId}`, since: null })
    if (drift !== null) countFinding(notedOf(drift.stream).findings.driftAt, teamId, drift.path, drift.type)
    if (result.kind === 'dead') {
      dead.add(row)
      notedOf(result.stream).deadLetters.push({ teamId, deadLetter: result.deadLetter })
    } else if (result.kind === 'fetch') {
      request(result.stream.name, result.id, result.reason)
    } else if (result.kind === 'state') {
      const { stream, envelope } = result
      const group = groups.get(stream.name) ?? {
        stream,
        states: new Map<string, ArrivedState>(),
        lacking: [],
      }
      groups.set(stream.name, group)
      if (fold(group, { envelope, receivedAt: row.receivedAt }) && stream.one !== null)
        request(stream.name, envelope.id, 'contested')
    }
  }
  const byName = (a: Group, b: Group) => (a.stream.name < b.stream.name ? -1 : 1)
  const byStream = (a: StreamFindings, b: StreamFindings) => (a.stream < b.stream ? -1 : 1)
  return {
    groups: [...groups.values()].sort(byName),
    noted: [...noted.values()].sort(byStream),
    requests,
    dead,
  }
}

/** Adds a state that arrived after those in the group, or with them. True when it leaves the record in conflict. */
function fold({ stream, states, lacking }: Group, incoming: ArrivedState): boolean {
  const { envelope } = incoming
  const key = keyOf(envelope)
  const current = states.get(key)
  if (current === undefined) {
    states.set(key, incoming)
    return false
  }
  const wins = supersedes(envelope, current.envelope, stampsDecide(stream))
  if (wins && lacksValuesOf(current.envelope, envelope)) {
    lacking.push(envelope)
    return false
  }
  if (wins) {
    // As in the merge: where `updated_at` decides, the winner takes the later version of the two.
    const version = laterOf(envelope.version, current.envelope.version)
    states.set(key, { ...incoming, envelope: { ...envelope, version } })
  }
  if (current.envelope.content?.hash === envelope.content?.hash) return false
  return (
    !wins ||
    current.envelope.version === envelope.version ||
    current.receivedAt === incoming.receivedAt ||
    stampsDisagree(envelope, current.envelope)
  )
}

function lacksValuesOf({ content: before }: Envelope, { content }: Envelope): boolean {
  if (before === null || content === null) return false
  const rest = Object.entries(before.payload).filter(([field]) => !(field in content.payload))
  return lacksStoredValues(Object.fromEntries(rest))
}
