/**
 * Webhook events of several teams and four streams as an unreliable service sends them, and the expected content of
 * every table after all of them, and the answers to all fetches by id, are loaded.
 *
 * The service no longer changes: everything that the events report has happened. Each record had some changes, each with
 * an event that arrives
 * - in order, or seconds and minutes late, after events of later changes;
 * - twice: with the same bytes; under another id; or under its old id and time with later data (`retried`);
 * - with later data at its first arrival (`rerendered`);
 * - with a part of its record (`partial`);
 * - stamped exactly, in whole seconds, or a few milliseconds late, in the order of other senders.
 * Some records have a correct updated_at, some none, some keep an old one while records that they embed change. Some are
 * deleted, and some of these created again. All teams, and all streams, use the same record ids and event ids.
 *
 * Invariant: equal seeds and numbers make equal events. The event of the last change of a record that cannot be fetched
 * by id arrives complete.
 */
import { type Choice, openChoice } from '../../simulate/choice.ts'
import { MIXED_STREAMS, type MixedStream, partOf, SOURCES, type State, stateOf } from './records.ts'

export interface Delivery {
  readonly team: string
  readonly stream: MixedStream
  readonly eventId: string
  readonly body: Buffer
}

export type Kind =
  | 'plain'
  | 'late'
  | 'rerendered'
  | 'retried'
  | 'duplicate'
  | 'copy'
  | 'partial'
  | 'deleted'
  | 'asynchronous'

export interface Mixture {
  readonly teams: readonly string[]
  /** In the order in which they arrive. */
  readonly deliveries: readonly Delivery[]
  /** By team and stream, the state of each record at the service; null if it is deleted. */
  readonly records: ReadonlyMap<string, Readonly<Record<MixedStream, ReadonlyMap<string, State | null>>>>
  /** By team, events with a part of a record that cannot be fetched by id: each is a dead letter. */
  readonly lost: ReadonlyMap<string, number>
  /** Number of deliveries of each kind; one delivery may count in several. */
  readonly kinds: Readonly<Record<Kind, number>>
}

export interface MixtureOptions {
  readonly seed: number
  /** Approximate number of deliveries, to within those of one record per team and stream. */
  readonly events: number
  readonly teams?: readonly string[]
  /** All four by default. */
  readonly streams?: readonly MixedStream[]
  /** The last time at the service, in milliseconds; an hour ago by default. */
  readonly endsAt?: number
  /** Every event arrives once, complete and in order, and nothing is deleted: the reference of benchmarks. */
  readonly inOrder?: boolean
}

/** How events and states of a record are stamped. */
type Stamps = 'exact' | 'whole seconds' | 'asynchronous'
type Updates = 'shown' | 'never' | 'stuck'

interface Change {
  /** Microseconds. */
  readonly at: number
  /** Of the event. */
  readonly stamp: number
  readonly type: 'created' | 'updated' | 'deleted'
  /** The state that the service shows from now on; for a deletion, the state before. */
  readonly state: State
}

interface Arrival extends Delivery {
  readonly at: number
}

const SECOND = 1_000_000
/** Virtual events per second, all teams together. */
const RATE = 500

export function makeMixture({ seed, events, inOrder = false, ...options }: MixtureOptions): Mixture {
  const { teams = ['a', 'b', 'c'], streams = MIXED_STREAMS } = options
  const choice = openChoice(seed)
  const span = Math.ceil(events / RATE) * SECOND
  const begins = ((options.endsAt ?? Date.now() - 3_600_000) - 300_000) * 1_000 - span
  const arrivals: Arrival[] = []
  const kinds: Record<Kind, number> = {
    ...{ plain: 0, late: 0, rerendered: 0, retried: 0, duplicate: 0, copy: 0, partial: 0 },
    ...{ deleted: 0, asynchronous: 0 },
  }
  const records = new Map(
    teams.map((team) => [
      team,
      Object.fromEntries(MIXED_STREAMS.map((stream) => [stream, new Map()])) as Record<
        MixedStream,
        Map<string, State | null>
      >,
    ]),
  )
  const lost = new Map(teams.map((team) => [team, 0]))
  for (let number = 0; arrivals.length < events; number++) {
    for (const team of teams) {
      for (const stream of streams) {
        const record = { team, stream, id: `same-${number}`, number }
        const life = lifeOf(choice, record, begins + choice.below(span))
        const changes = inOrder ? life.filter(({ type }, at) => at === 0 || type === 'updated') : life
        const last = changes.at(-1)!
        records.get(team)![stream].set(record.id, last.type === 'deleted' ? null : last.state)
        if (inOrder) arrivals.push(...changes.map((change, at) => onceArrived(record, change, at)))
        else arrivals.push(...arrivalsOf(choice, record, changes, kinds, lost))
      }
    }
  }
  arrivals.sort((a, b) => a.at - b.at)
  return { teams, deliveries: arrivals, records, lost, kinds }
}

interface RecordPlace {
  readonly team: string
  readonly stream: MixedStream
  readonly id: string
  readonly number: number
}

function lifeOf(choice: Choice, { team, stream, id, number }: RecordPlace, begins: number): Change[] {
  const canBeAsked = stream !== 'packet_responses'
  const stamps: Stamps = choice.chance(0.7) ? 'exact' : choice.one(['whole seconds', 'asynchronous'] as const)
  // Stamps that are not in the order of the changes need a correct updated_at to decide.
  const mustTell = !canBeAsked || stamps === 'asynchronous'
  const updates: Updates = mustTell || choice.chance(0.7) ? 'shown' : choice.one(['never', 'stuck'] as const)
  const states = 1 + choice.below(4)
  const ending = choice.chance(0.1) ? (canBeAsked && choice.chance(0.3) ? 'made again' : 'deleted') : 'stays'
  const changes: Change[] = []
  let at = begins
  const createdAt = stampOf(at)
  const members = Array.from({ length: 1 + choice.below(3) }, () => `same-${choice.below(number + 1)}`)

  const add = (type: Change['type']) => {
    const serial = number + changes.length * 7 + 1
    const updatedAt = updates === 'never' ? null : updates === 'stuck' ? createdAt : stampOf(at)
    const isLast = type !== 'deleted' && changes.length >= states - 1
    const draft = { team, id, serial, createdAt, updatedAt, isLast, members: [...new Set(members)] }
    const state = type === 'deleted' ? changes.at(-1)!.state : stateOf(stream, draft)
    changes.push({ at, stamp: stamped(choice, stamps, at), type, state })
  }
  add('created')
  while (changes.length < states) {
    at += 1 + pauseAfter(choice)
    add('updated')
  }
  if (ending !== 'stays') {
    // It stays the later one although it is stamped in whole seconds, or slightly late.
    at += SECOND + choice.below(10 * SECOND)
    add('deleted')
  }
  if (ending === 'made again') {
    at += SECOND + choice.below(10 * SECOND)
    add('created')
  }
  return changes
}

function pauseAfter(choice: Choice): number {
  if (choice.chance(0.35)) return choice.below(3_000)
  return choice.below(choice.chance(0.5) ? 2 * SECOND : 60 * SECOND)
}

function stamped(choice: Choice, stamps: Stamps, at: number): number {
  if (stamps === 'whole seconds') return Math.floor(at / SECOND) * SECOND
  return stamps === 'asynchronous' ? at + choice.below(20_000) : at
}

function onceArrived(
  { team, stream, number }: RecordPlace,
  { at, type, state }: Change,
  place: number,
): Arrival {
  const eventId = `event-${stream}-${number}-${place}`
  const envelope = {
    id: eventId,
    timestamp: stampOf(at),
    event_type: type,
    source: SOURCES[stream],
    data: state.payload,
  }
  return { at, team, stream, eventId, body: Buffer.from(JSON.stringify(envelope)) }
}

function arrivalsOf(
  choice: Choice,
  { team, stream, id, number }: RecordPlace,
  changes: readonly Change[],
  kinds: Record<Kind, number>,
  lost: Map<string, number>,
): Arrival[] {
  const canBeAsked = stream !== 'packet_responses'
  const arrivals: Arrival[] = []
  let serial = 0
  /** The same in every team. */
  const nextId = () => `event-${stream}-${number}-${serial++}`

  const arrive = (at: number, eventId: string, { stamp, type }: Change, data: unknown) => {
    const envelope = {
      id: eventId,
      timestamp: stampOf(stamp),
      event_type: type,
      source: SOURCES[stream],
      data,
    }
    arrivals.push({ at, team, stream, eventId, body: Buffer.from(JSON.stringify(envelope)) })
  }
  /** The state that the service shows some time after a change, to the receiver of its event. */
  const shownAt = (from: number, at: number): State => {
    let shown = from
    while (
      shown + 1 < changes.length &&
      changes[shown + 1]!.at <= at &&
      changes[shown + 1]!.type === 'updated'
    )
      shown += 1
    return changes[shown]!.state
  }

  changes.forEach((change, place) => {
    const eventId = nextId()
    const isLate = choice.chance(0.15)
    const at = change.at + choice.below(isLate ? choice.one([5, 120] as const) * SECOND : 20_000)
    if (isLate) kinds.late += 1
    if (change.stamp > change.at) kinds.asynchronous += 1
    if (change.type === 'deleted') {
      kinds.deleted += 1
      arrive(at, eventId, change, choice.chance(0.5) ? { id } : change.state.payload)
      return
    }
    const isPartial = canBeAsked && choice.chance(0.02)
    const isRerendered = !isPartial && choice.chance(0.15)
    if (isPartial) kinds.partial += 1
    if (isRerendered) kinds.rerendered += 1
    const { payload } = isRerendered ? shownAt(place, at) : change.state
    arrive(at, eventId, change, isPartial ? partOf(stream, change.state, choice.chance(0.5)) : payload)
    if (!isLate && !isPartial && !isRerendered) kinds.plain += 1
    if (choice.chance(0.1)) {
      kinds.retried += 1
      const again = at + choice.below(choice.one([1, 60] as const) * SECOND)
      arrive(again, eventId, change, shownAt(place, again).payload)
    }
    if (choice.chance(0.05)) {
      kinds.duplicate += 1
      arrivals.push({ ...arrivals.at(-1)!, at: at + choice.below(SECOND) })
    }
    if (choice.chance(0.05)) {
      kinds.copy += 1
      arrive(at + choice.below(SECOND), nextId(), change, payload)
    }
    if (choice.chance(0.03)) {
      kinds.partial += 1
      arrive(at + choice.below(SECOND), nextId(), change, partOf(stream, change.state, choice.chance(0.5)))
      if (!canBeAsked) lost.set(team, lost.get(team)! + 1)
    }
  })
  return arrivals
}

/** An instant in the format of the service, to the microsecond. */
function stampOf(micros: number): string {
  const seconds = new Date(Math.floor(micros / 1_000)).toISOString().slice(0, -1)
  return `${seconds}${String(micros % 1_000).padStart(3, '0')}Z`
}
