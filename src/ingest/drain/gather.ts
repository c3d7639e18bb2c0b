/**
 * Events of a batch → what it writes: for each team and stream one state a record, and beside them what is asked for,
 * set aside and not known. Decides by the rows alone; the event loop gets its turns, for the ingester beside it.
 *
 * Invariant: of several states of a record the one stays that would stay if they were loaded one by one in the order
 * in which they arrived, and a record is contested where they would tell so: a state lost to, or tied with, another
 * content that arrived before it (law 2). Events that were stored together have no order among them: where they differ,
 * their record is contested.
 */
import { setImmediate } from 'node:timers/promises'
import { type Envelope, supersedes } from '../../core/envelope.ts'
import type { StreamName, StreamOrInbox } from '../../core/streams.ts'
import type { Instant } from '../../core/time.ts'
import type { DeadLetter } from '../../load/dead-letters.ts'
import { type Findings, noFindings } from '../../load/lines.ts'
import type { Ask, RefetchReason } from '../../load/refetches.ts'
import type { Stream } from '../../streams/stream.ts'
import { readEvent, type StoredEvent } from './read-event.ts'

/** States of one team and stream, no key twice. */
export interface Group {
  readonly teamId: number
  readonly stream: Stream
  readonly states: Map<string, Arrived>
}

/** The state of a record that stays, and when its event was stored. */
export interface Arrived {
  readonly envelope: Envelope
  readonly receivedAt: Instant
}

/** What a batch notes about one team and stream, or about the inbox of one team. */
export interface Place {
  readonly teamId: number
  readonly stream: StreamOrInbox
  readonly letters: DeadLetter[]
  readonly findings: Findings
}

export interface Gathered<Row> {
  /** In the order of team and stream, in which every worker writes. */
  readonly groups: readonly Group[]
  readonly places: readonly Place[]
  readonly asks: readonly Ask[]
  /** Those that are set aside. */
  readonly dead: ReadonlySet<Row>
}

/** Events read, or lines written, before others get a turn: thousands a second are to be answered meanwhile. */
export const BREATH = 50

export async function gather<Row extends StoredEvent>(
  rows: readonly Row[],
  apiVersionOf: (teamId: number) => string,
): Promise<Gathered<Row>> {
  const groups = new Map<string, Group>()
  const places = new Map<string, Place>()
  const asks: Ask[] = []
  const dead = new Set<Row>()

  function placeOf(teamId: number, stream: StreamOrInbox): Place {
    const key = `${teamId}/${stream}`
    const known = places.get(key)
    const place = known ?? { teamId, stream, letters: [], findings: noFindings() }
    if (known === undefined) places.set(key, place)
    return place
  }

  for (const [at, row] of rows.entries()) {
    if (at % BREATH === BREATH - 1) await setImmediate()
    const { teamId } = row
    const { said, drift } = readEvent(row, apiVersionOf(teamId))
    const ask = (stream: StreamName, id: string, reason: RefetchReason) =>
      asks.push({ teamId, stream, id, reason, origin: `event:${row.eventId}`, since: null })
    if (drift !== null) {
      const { driftAt } = placeOf(teamId, drift.stream).findings
      const key = JSON.stringify([drift.path, drift.type])
      driftAt.set(key, (driftAt.get(key) ?? 0) + 1)
    }
    if (said.kind === 'dead') {
      dead.add(row)
      placeOf(teamId, said.stream).letters.push(said.letter)
    } else if (said.kind === 'ask') {
      ask(said.stream.name, said.id, said.reason)
    } else if (said.kind === 'state') {
      const { stream, envelope } = said
      const key = `${teamId}/${stream.name}`
      const group = groups.get(key) ?? { teamId, stream, states: new Map<string, Arrived>() }
      groups.set(key, group)
      if (fold(group.states, { envelope, receivedAt: row.receivedAt }) && stream.one !== null)
        ask(stream.name, envelope.id, 'contested')
    }
  }
  return { groups: inOrder(groups.values()), places: inOrder(places.values()), asks, dead }
}

/** Takes a state in that came after those held, or with them. True when it leaves the record in doubt. */
function fold(states: Map<string, Arrived>, came: Arrived): boolean {
  const { id, version, content } = came.envelope
  const held = states.get(id)
  const wins = held === undefined || supersedes(came.envelope, held.envelope)
  if (wins) states.set(id, came)
  if (held === undefined || held.envelope.content?.hash === content?.hash) return false
  return !wins || held.envelope.version === version || held.receivedAt === came.receivedAt
}

function inOrder<Each extends { readonly teamId: number; readonly stream: Stream | StreamOrInbox }>(
  all: Iterable<Each>,
): readonly Each[] {
  const name = ({ stream }: Each) => (typeof stream === 'string' ? stream : stream.name)
  return [...all].sort((a, b) => a.teamId - b.teamId || (name(a) < name(b) ? -1 : 1))
}
