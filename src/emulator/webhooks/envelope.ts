/**
 * Renders an event (specification, section 6).
 *
 * Invariant: `data` is the current record in the shape of its GET by id, with the API version of the request that
 * created the configuration; id and timestamp are the same at every attempt.
 */
import { stamp } from '../clock.ts'
import type { JsonRecord } from '../http/answer.ts'
import { showEventData } from '../http/resources/show.ts'
import type { Shape } from '../shapes/shape.ts'
import { declaredAs } from '../world/declared-catalogue.ts'
import type { Table } from '../world/table.ts'
import type { EventSource, World, WorldEvent } from '../world/world.ts'
import type { EventType } from './webhook-configs.ts'

export interface WebhookEvent {
  readonly id: string
  readonly type: EventType
  readonly subject: Subject
  /** The service's time of the change, in microseconds; of the last one if several were merged. */
  at: number
}

export interface Rendering {
  readonly world: World
  readonly shape: Shape
  readonly subjects: Subjects
  /** `X-API-VERSION` in force. */
  readonly version: string
}

export function writeEvent(event: WebhookEvent, rendering: Rendering): Buffer {
  return written(envelopeOf(event, rendering), rendering.shape)
}

/** The same event with every text of its record replaced. */
export function writeForged(event: WebhookEvent, rendering: Rendering): Buffer {
  const envelope = envelopeOf(event, rendering)
  const forged = Object.entries((envelope.data ?? {}) as JsonRecord).map(([name, value]) =>
    typeof value === 'string' && !KEPT.test(name) ? [name, 'forged'] : [name, value],
  )
  return written({ ...envelope, data: Object.fromEntries(forged) }, rendering.shape)
}

/** Ids and times stay, so that the receiver knows the forged record. */
const KEPT = /^u?id$|_id$|_at$/

function envelopeOf({ id, type, subject, at }: WebhookEvent, rendering: Rendering): JsonRecord {
  const { world, shape, subjects, version } = rendering
  const showing = { world, version, nestedForms: shape.has('nested-forms') }
  const { resource, record } = showEventData(subject.source, subjects.rowOf(subject), showing)
  const data = shape.record(record, { resource, inList: false })
  return shape.event({ id, timestamp: stamp(at), event_type: type, source: subject.source, data })
}

function written(envelope: JsonRecord, shape: Shape): Buffer {
  return Buffer.from(shape.text(JSON.stringify(envelope)))
}

/**
 * The records of events that are still to be sent.
 *
 * Invariant: an existing record is shown in its current state, a deleted one in its last state. Only records of unsent
 * events are stored.
 */
type Row = Exclude<WorldEvent, { source: 'message' }>['row']

interface Subject {
  readonly source: EventSource
  readonly id: string
  /** State at the newest event, shown once the record is deleted. */
  last: Row
  /** Number of events that retain it. */
  uses: number
}

export class Subjects {
  readonly #world: World
  readonly #byId = new Map<string, Subject>()

  constructor(world: World) {
    this.#world = world
  }

  /** The subject of an event that is to be sent. The caller must release it. */
  retain(source: EventSource, row: Row): Subject {
    let subject = this.#byId.get(row.id)
    if (subject === undefined) {
      subject = { source, id: row.id, last: row, uses: 0 }
      this.#byId.set(row.id, subject)
    }
    subject.uses += 1
    return subject
  }

  release(subject: Subject): void {
    subject.uses -= 1
    if (subject.uses === 0) this.#byId.delete(subject.id)
  }

  /** Stores the last state of a changed record. */
  note({ id, row, source }: WorldEvent): void {
    if (source === 'message') return
    const subject = this.#byId.get(id)
    if (subject !== undefined) subject.last = row
  }

  rowOf({ source, id, last }: Subject): Row {
    return tableOf(this.#world, source).get(id) ?? last
  }

  /** A record for a simulated event: the oldest of the first source that has one, else an invented patient. */
  example(sources: readonly EventSource[]): { source: EventSource; row: Row } {
    for (const source of sources) {
      const [row] = tableOf(this.#world, source).slice(0, 1)
      if (row !== undefined) return { source, row }
    }
    return { source: 'patient', row: this.#world.seed.patients.make(NOBODY) }
  }
}

/** No world has so many patients. */
const NOBODY = 2 ** 31 + 1

function tableOf(world: World, source: EventSource): Table<Row> {
  if (declaredAs(source) !== undefined) return world.declared(source) as unknown as Table<Row>
  return {
    patient: world.patients,
    form: world.forms,
    packet: world.packets,
    document: world.documents,
    response: world.responses,
    packet_response: world.packetResponses,
  }[source] as Table<Row>
}
