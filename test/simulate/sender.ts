/**
 * The service's webhooks: an event for each change, sent until it is acknowledged, in any order, duplicate, and
 * rendered again each time under its old id and timestamp; or never. Pending events of a packet response may become
 * one (specification, section 6, rule 3).
 *
 * Invariant: `acknowledged` contains every body that the ingester stored, whether or not the service received the answer.
 * The content of an event is from its timestamp or later, except for a deleted record.
 */
import { hash } from 'node:crypto'
import { stamp } from '../../src/emulator/clock.ts'
import { Subjects, writeEvent } from '../../src/emulator/webhooks/envelope.ts'
import type { WorldEvent } from '../../src/emulator/world/world.ts'
import { readEvent } from '../../src/ingest/inbox/event.ts'
import type { Inbox } from '../../src/ingest/inbox/inbox.ts'
import type { Choice } from './choice.ts'
import type { History, SimulatedStream } from './history.ts'
import type { Actor, Offer, Scheduler } from './scheduler.ts'
import { type Service, VERSION } from './service.ts'
import { keyOf } from './stored-states.ts'
import { asActor } from './timers.ts'

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
  /** Streams with events. */
  readonly streams: readonly SimulatedStream[]
  /** Most microseconds from a change to its event, which has the time of its creation. */
  readonly makingMicros: number
  /** Most microseconds from the reading of a record to the stamp of its event, if its sender is asynchronous. */
  readonly lagMicros: number
  /** Probability that an event is read at its change and stamped later, in any order. */
  readonly asynchronous: () => number
  /** Probability that an event contains only a part of its record; those of packet responses are always complete. */
  readonly partial: () => number
  /** Probability that an event is never sent. */
  readonly dropped: () => number
  /** Probability that an answer is lost, or an acknowledged event is sent again. */
  readonly repeated: () => number
  readonly receiver: () => Receiver | null
}

export interface Sender {
  readonly acknowledged: readonly Acknowledged[]
  /** Events that are not yet acknowledged. */
  readonly waiting: number
  /** Events that can be sent now. */
  readonly due: number
  /** Records, by `keyOf`, for which an acknowledged event contained only a part. */
  readonly partial: ReadonlySet<string>
  /** Delays, or suppresses, further events of a record. */
  treat(id: string, how: 'kept back' | 'never sent' | 'as usual'): void
  /** Sends delayed events, and soon. */
  release(id: string): void
  offers(): readonly Offer[]
}

interface Delivery {
  readonly number: number
  readonly event: Parameters<typeof writeEvent>[0]
  readonly stream: SimulatedStream
  /** The content that an asynchronous sender read, and the stamp that the event would have had otherwise. */
  early: { readonly data: unknown; readonly updatedAt: string; readonly usualAt: number } | null
  /** The process that received it. */
  with: Actor | null
  notBefore: number
  attempts: number
  /** Null while it is delayed. */
  weight: number | null
}

/** Weight of sending an event, relative to pending calls. */
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
  /** When the last event of each record was created. */
  const lastMade = new Map<string, number>()
  const lastUpdated = new Map<string, string>()
  const partial = new Set<string>()
  let events = 0

  world.subscribe((change) => {
    subjects.note(change)
    if (change.source === 'message') return
    if (streams.includes(STREAM_OF[change.source])) tell(change)
  })

  function tell(change: Occurrence): void {
    const { source, id } = change
    for (const delivery of waiting) if (delivery.event.subject.id === id) readLater(delivery, change)
    // Two states with one time have no order by their own stamps.
    const isOfOneMoment = lastUpdated.get(id) === change.row.updated_at
    lastUpdated.set(id, change.row.updated_at)
    if (change.type === 'deleted') {
      // Unsent changes of a record are not reported after it is gone.
      for (const { event, early, stream } of waiting) {
        // Where the record can be fetched, a stamp after the deletion is a conflict.
        const staysLate = early !== null && stream !== 'packet_responses'
        if (event.subject.id === id && !staysLate) event.at = Math.min(event.at, change.at)
      }
    }
    if (treated.get(id) === 'never sent' || choice.chance(options.dropped())) return
    const at = madeAt(change)
    // The service also reports a new packet response as updated.
    const type = source === 'packet_response' && change.type === 'created' ? 'updated' : change.type
    if (source === 'packet_response' && type === 'updated' && isTakenIn(id, at)) return
    events += 1
    const late = choice.chance(0.3) ? choice.below(3_000_000) : 0
    const event = { id: `event-${events}`, type, subject: subjects.retain(source, change.row), at }
    const early = type === 'deleted' || isOfOneMoment ? null : readEarly(event, change)
    waiting.add({
      number: events,
      event,
      stream: STREAM_OF[source],
      early,
      with: null,
      notBefore: scheduler.now() + event.at - change.at + late,
      attempts: 0,
      weight: treated.get(id) === 'kept back' ? null : USUAL,
    })
  }

  /** Reads the record now and stamps the event later, whatever the stamps of other events. */
  function readEarly(event: Delivery['event'], { at }: Occurrence): Delivery['early'] {
    if (options.asynchronous() === 0 || !choice.chance(options.asynchronous())) return null
    const { data } = rendered(event) as {
      readonly data: { readonly id: string; readonly updated_at: string }
    }
    const usualAt = event.at
    event.at = at + 1 + choice.below(options.lagMicros)
    return { data, updatedAt: data.updated_at, usualAt }
  }

  /** Two states with one time have no order by their own stamps: the first is not read early. */
  function readLater(delivery: Delivery, { type, row, at }: Occurrence): void {
    const { early, attempts, event } = delivery
    const updatedAt = type === 'deleted' ? stamp(at) : row.updated_at
    if (early === null || attempts > 0 || early.updatedAt !== updatedAt) return
    event.at = early.usualAt
    // No event is sent before its stamp.
    delivery.notBefore = Math.max(delivery.notBefore, scheduler.now() + event.at - world.clock.now())
    delivery.early = null
  }

  function rendered(event: Delivery['event']): { readonly data: unknown } {
    return JSON.parse(writeEvent(event, { world, shape, subjects, version: VERSION }).toString('utf8'))
  }

  /** The content that is sent: the record as it is now, or as it was read early; complete or in part. */
  function bodyOf({ event, stream, early, attempts }: Delivery): {
    body: Buffer
    data: unknown
    whole: boolean
  } {
    const usual = writeEvent(event, { world, shape, subjects, version: VERSION })
    const envelope = JSON.parse(usual.toString('utf8')) as { data: Record<string, unknown> }
    history.tellOfGone(stream, event.subject.id, envelope.data)
    const isEarly = early !== null && attempts === 0 && envelope.data.updated_at !== early.updatedAt
    const data = (isEarly ? early.data : envelope.data) as Record<string, unknown>
    const whole =
      stream === 'packet_responses' || options.partial() === 0 || !choice.chance(options.partial())
    if (whole && !isEarly) return { body: usual, data, whole }
    const sent = whole ? data : partOf(data)
    return { body: Buffer.from(JSON.stringify({ ...envelope, data: sent })), data: sent, whole }
  }

  function partOf(data: Record<string, unknown>): Record<string, unknown> {
    if (choice.chance(0.3)) return { id: data.id }
    const kept = (name: string) => name === 'id' || name === 'updated_at' || choice.chance(0.6)
    return Object.fromEntries(Object.entries(data).filter(([name]) => kept(name)))
  }

  /** In the order of the changes of each record. */
  function madeAt({ id, type, at }: Occurrence): number {
    const making = options.makingMicros === 0 || type === 'deleted' ? 0 : choice.below(options.makingMicros)
    const made = type === 'deleted' ? at : Math.max(at + making, lastMade.get(id) ?? 0)
    lastMade.set(id, made)
    return made
  }

  /** True when a pending event absorbs the next one; it gets its time. */
  function isTakenIn(id: string, at: number): boolean {
    const before = [...waiting].find(
      ({ event, attempts }) => attempts === 0 && event.subject.id === id && event.type === 'updated',
    )
    if (before === undefined || !choice.chance(0.5)) return false
    before.notBefore = Math.max(before.notBefore, scheduler.now() + at - world.clock.now())
    before.event.at = at
    before.early = null
    return true
  }

  function send(delivery: Delivery, { actor, inbox }: Receiver): void {
    const { event, stream, number } = delivery
    history.look()
    const { body, data, whole } = bodyOf(delivery)
    // Also if the answer is lost: it may be stored all the same.
    if (!whole) partial.add(keyOf(stream, event.subject.id))
    delivery.with = actor
    delivery.attempts += 1
    scheduler.call(actor, `event ${number} (${event.type} ${stream}) arrives`, async () => {
      asActor(actor, () => inbox.store(readEvent(teamId, body))).then(
        (outcome) => {
          const sent = { eventId: event.id, stream, id: event.subject.id, type: event.type, data }
          acknowledged.push({ hash: hash('sha256', body, 'hex'), ...sent })
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

  function due(): readonly Delivery[] {
    return [...waiting].filter(
      (each) =>
        (each.with === null || !each.with.alive || each.with.isStopped) &&
        each.weight !== null &&
        each.notBefore <= scheduler.now(),
    )
  }

  return {
    acknowledged,
    get waiting() {
      return waiting.size
    },
    get due() {
      return due().length
    },
    partial,
    treat(id, how) {
      if (how === 'as usual') treated.delete(id)
      else treated.set(id, how)
    },
    release(id) {
      for (const delivery of waiting) {
        if (delivery.event.subject.id !== id || delivery.weight !== null) continue
        delivery.weight = SOON
        delivery.notBefore = scheduler.now()
      }
    },
    offers() {
      const to = receiver()
      if (to === null) return []
      // Among the oldest few: the service sends roughly in order.
      return due()
        .slice(0, 4)
        .map((each) => ({
          label: `event ${each.number} is sent`,
          weight: each.weight ?? USUAL,
          act: () => send(each, to),
        }))
    },
  }
}
