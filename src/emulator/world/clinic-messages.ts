/**
 * The life of a message: pending or scheduled, then sent (or failed) at its time, or cancelled before
 * (specification, sections 2.2 and 3.1).
 *
 * Invariant: a message leaves the unsent states once. Only a sent message requests responses, and each of them exists
 * before its event.
 */
import { readStamp, stamp } from '../clock.ts'
import { openResponse, setUpPacket } from './clinic-responses.ts'
import type { Message } from './records.ts'
import { contentOf } from './seeded/make-response.ts'
import type { World } from './world.ts'

export type MessageFields = Pick<
  Message,
  | 'patient'
  | 'form'
  | 'packet'
  | 'document'
  | 'message_type'
  | 'preferred_delivery_method'
  | 'target_email'
  | 'target_phone_number'
  | 'scheduled_at'
>

/** Delay of an unscheduled message, in microseconds. */
const AT_ONCE = 200_000

export function isUnsent({ status }: Message): boolean {
  return status === 'pending' || status === 'scheduled'
}

/** Creates a message and schedules its sending. Its references must exist. */
export function createMessage(world: World, fields: MessageFields): Message {
  const now = world.now()
  const message = world.messages.create((id) => ({
    id,
    ...fields,
    ...planned(world, fields.scheduled_at),
    content: contentOf(nameOf(world, fields)),
    sent_at: null,
    created_at: now,
    updated_at: now,
  }))
  plan(world, message)
  return message
}

/** Changes an unsent message; undefined if it is no longer unsent. */
export function changeMessage(world: World, id: string, change: Partial<MessageFields>): Message | undefined {
  const old = world.messages.get(id)
  if (old === undefined || !isUnsent(old)) return undefined
  const message = world.messages.update(id, () => {
    const merged = { ...old, ...change, updated_at: world.now() }
    const timing = 'scheduled_at' in change ? planned(world, merged.scheduled_at) : {}
    return { ...merged, ...timing, content: contentOf(nameOf(world, merged)) }
  })!
  plan(world, message)
  return message
}

/** Cancels an unsent message; undefined if it is no longer unsent. */
export function cancelMessage(world: World, id: string): Message | undefined {
  const message = world.messages.get(id)
  if (message === undefined || !isUnsent(message)) return undefined
  return world.messages.update(id, (old) => ({ ...old, status: 'cancelled', updated_at: world.now() }))
}

/** Status and time of a message that is to be sent at `scheduledAt`; a past time means at once. */
function planned(world: World, scheduledAt: string | null): Pick<Message, 'status' | 'scheduled_at'> {
  const due = scheduledAt === null ? undefined : readStamp(scheduledAt)
  if (due === undefined) return { status: 'pending', scheduled_at: null }
  return { status: due > world.clock.elapsed() ? 'scheduled' : 'pending', scheduled_at: stamp(due) }
}

function nameOf(world: World, { form, packet, document }: MessageFields): string {
  const found =
    (form !== null ? world.forms.get(form) : undefined) ??
    (packet !== null ? world.packets.get(packet) : undefined) ??
    (document !== null ? world.documents.get(document) : undefined)
  return found?.name ?? ''
}

function plan(world: World, { id, status, scheduled_at }: Message): void {
  const due = status === 'scheduled' ? readStamp(scheduled_at!)! : world.clock.elapsed() + AT_ONCE
  world.timeline.at(due, () => {
    const message = world.messages.get(id)
    // It may have been cancelled or rescheduled since.
    if (message === undefined || message.status !== status || message.scheduled_at !== scheduled_at) return
    send(world, message)
  })
}

/** Sends a message now. */
function send(world: World, message: Message): void {
  const { id, patient, target_email } = message
  // The top-level domain .invalid never exists, so these addresses bounce.
  const bounces = message.preferred_delivery_method === 'email' && /\.invalid$/i.test(target_email ?? '')
  const now = world.now()
  if (bounces || world.patients.get(patient) === undefined) {
    world.messages.update(id, (old) => ({ ...old, status: 'failed', updated_at: now }))
    return
  }
  const sent = world.messages.update(id, (old) => ({ ...old, status: 'sent', sent_at: now, updated_at: now }))
  askFor(world, sent!)
}

/** Creates the open responses that a sent message requests. */
function askFor(world: World, message: Message): void {
  const { id, patient, form, packet, document } = message
  const base = { patient, form: null, packet: null, document: null, message: id, packet_response: null }
  if (form !== null) openResponse(world, { ...base, form })
  if (document !== null) openResponse(world, { ...base, document })
  if (packet !== null) setUpPacket(world, { ...base, packet })
}
