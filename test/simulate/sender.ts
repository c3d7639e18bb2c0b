/**
 * The service's webhooks: an event for each change, sent until it is acknowledged, in whatever order, twice, and
 * rendered anew each time under its old id and timestamp; or never. Events of a packet response that wait may become
 * one (specification, section 6, rule 3).
 *
 * Invariant: `acknowledged` holds every body that the ingester said was stored, whether the service heard of it or not.
 * What an event shows is of its timestamp or later, but for a record that is gone.
 */
import { hash } from 'node:crypto'
import { Subjects, writeEvent } from '../../src/emulator/webhooks/envelope.ts'
import type { WorldEvent } from '../../src/emulator/world/world.ts'
import { readEvent } from '../../src/ingest/inbox/event.ts'
import type { Inbox } from '../../src/ingest/inbox/inbox.ts'
import type { Choice } from './choice.ts'
import type { History, SimulatedStream } from './history.ts'
import type { Actor, Offer, Scheduler } from './scheduler.ts'
import { type Service, VERSION } from './service.ts'

export interface Acknowledged {
  readonly hash: string
  readonly eventId: string
  readonly stream: SimulatedStream
  readonly id: string
  readonly type: string
  readonly data: unknown
}

export interface Receiver {
  readonly actor: Actor
  readonly inbox: Inbox
}

export interface SenderOptions {
  readonly teamId: number
  readonly scheduler: Scheduler
  readonly service: Service
  readonly history: History
  readonly choice: Choice
  /** Of which events tell. */
  readonly streams: readonly SimulatedStream[]
  /** Most microseconds from a change to the event that tells of it, which bears the time of its making. */
  readonly makingMicros: number
  /** How likely an event is never sent. */
  readonly dropped: () => number
  /** How likely an answer is lost, or an acknowledged event is sent again. */
  readonly repeated: () => number
  readonly receiver: () => Receiver | null
}

export interface Sender {
  readonly acknowledged: readonly Acknowledged[]
  /** Events that are still to be acknowledged. */
  readonly waiting: number
  /** Of a record: events to come are kept back, or never sent. */
  treat(id: string, how: 'kept back' | 'never sent' | 'as usual'): void
  /** Sends what was kept back, and soon. */
  letGo(id: string): void
  offers(): readonly Offer[]
}

interface Delivery {
  readonly number: number
  readonly event: Parameters<typeof writeEvent>[0]
  readonly stream: SimulatedStream
  /** Whom it is with. */
  with: Actor | null
  notBefore: number
  attempts: number
  /** Null while it is kept back. */
  weight: number | null
}

/** How often an event is sent, beside the calls that wait. */
const USUAL = 0.5
const SOON = 3

type Occurrence = Exclude<WorldEvent, { source: 'message' }>

const STREAM_OF: Readonly<Record<Occurrence['source'], SimulatedStream>> = {
  patient: 'patients',
  form: 'forms',
  packet: 'packets',
  document: 'documents',
  response: 'responses',
  packet_response: 'packet_responses',
}

export function openSender(options: SenderOptions): Sender {
  const { teamId, scheduler, service, history, choice, streams, receiver } = options
  const { world, shape } = service
  const subjects = new Subjects(world)
  const acknowledged: Acknowledged[] = []
  const waiting = new Set<Delivery>()
  const treated = new Map<string, 'kept back' | 'never sent'>()
  /** When the last event of each record was made. */
  const lastMade = new Map<string, number>()
  let events = 0

  world.subscribe((change) => {
    subjects.note(change)
    if (change.source === 'message') return
    if (streams.includes(STREAM_OF[change.source])) tell(change)
  })

  function tell(change: Occurrence): void {
    const { source, id } = change
    if (change.type === 'deleted') {
      // What was still to be told of a record is not made up after it is gone.
      for (const { event } of waiting) if (event.subject.id === id) event.at = Math.min(event.at, change.at)
    }
    if (treated.get(id) === 'never sent' || choice.chance(options.dropped())) return
    const at = madeAt(change)
    // The service tells of a packet response that it was updated, when it is set up too.
    const type = source === 'packet_response' && change.type === 'created' ? 'updated' : change.type
    if (source === 'packet_response' && type === 'updated' && isTakenIn(id, at)) return
    events += 1
    const late = choice.chance(0.3) ? choice.below(3_000_000) : 0
    waiting.add({
      number: events,
      event: { id: `event-${events}`, type, subject: subjects.retain(source, change.row), at },
      stream: STREAM_OF[source],
      with: null,
      notBefore: scheduler.now() + at - change.at + late,
      attempts: 0,
      weight: treated.get(id) === 'kept back' ? null : USUAL,
    })
  }

  /** In the order of the changes of each record. */
  function madeAt({ id, type, at }: Occurrence): number {
    const making = options.makingMicros === 0 || type === 'deleted' ? 0 : choice.below(options.makingMicros)
    const made = type === 'deleted' ? at : Math.max(at + making, lastMade.get(id) ?? 0)
    lastMade.set(id, made)
    return made
  }

  /** True when an event that waits takes the next one in; it gets its time. */
  function isTakenIn(id: string, at: number): boolean {
    const before = [...waiting].find(
      ({ event, attempts }) => attempts === 0 && event.subject.id === id && event.type === 'updated',
    )
    if (before === undefined || !choice.chance(0.5)) return false
    before.notBefore = Math.max(before.notBefore, scheduler.now() + at - world.clock.now())
    before.event.at = at
    return true
  }

  function send(delivery: Delivery, { actor, inbox }: Receiver): void {
    const { event, stream, number } = delivery
    history.look()
    const body = writeEvent(event, { world, shape, subjects, version: VERSION })
    const { data } = JSON.parse(body.toString('utf8')) as { data: unknown }
    history.tellOfGone(stream, event.subject.id, data)
    delivery.with = actor
    delivery.attempts += 1
    scheduler.call(actor, `event ${number} (${event.type} ${stream}) arrives`, async () => {
      inbox.store(readEvent(teamId, body)).then(
        (outcome) => {
          const told = { eventId: event.id, stream, id: event.subject.id, type: event.type, data }
          acknowledged.push({ hash: hash('sha256', body, 'hex'), ...told })
          delivery.with = null
          const again = choice.chance(options.repeated())
          scheduler.note(`event ${number} is ${outcome}${again ? ', which is not heard' : ''}`)
          if (again) delivery.notBefore = scheduler.now() + choice.below(2_000_000)
          else waiting.delete(delivery)
        },
        () => {
          scheduler.note(`event ${number} is refused`)
          delivery.with = null
          delivery.notBefore = scheduler.now() + 1_000_000
        },
      )
    })
  }

  return {
    acknowledged,
    get waiting() {
      return waiting.size
    },
    treat(id, how) {
      if (how === 'as usual') treated.delete(id)
      else treated.set(id, how)
    },
    letGo(id) {
      for (const delivery of waiting) {
        if (delivery.event.subject.id !== id || delivery.weight !== null) continue
        delivery.weight = SOON
        delivery.notBefore = scheduler.now()
      }
    },
    offers() {
      const to = receiver()
      if (to === null) return []
      const due = [...waiting].filter(
        (each) =>
          (each.with === null || !each.with.alive) &&
          each.weight !== null &&
          each.notBefore <= scheduler.now(),
      )
      // The oldest few: the service sends in some order, after all.
      return due.slice(0, 4).map((each) => ({
        label: `event ${each.number} is sent`,
        weight: each.weight ?? USUAL,
        act: () => send(each, to),
      }))
    },
  }
}
