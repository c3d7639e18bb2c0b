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
import type { World } from '../world/world.ts'
import type { Subject, Subjects } from './subjects.ts'
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
