/**
 * Messages to patients (specification, sections 2.2, 3.1 and 4.2; the full set of their fields is not shown).
 *
 * Invariant: a message is sent to the service again only after 429, so that no patient gets it twice.
 */
import { z } from 'zod'
import type { Client } from '../client.ts'
import {
  type CallOptions,
  create,
  type EmptyAnswer,
  type FilterOptions,
  getById,
  listFiltered,
  type RecordAnswer,
  remove,
  type TypedScan,
  update,
} from './resource.ts'
import { Id, identified, Optional, Reference } from './typed.ts'

/** `status` and `delivery_status`, as text or as an object that contains it. */
const Status = z.union([z.string(), z.looseObject({ status: Optional, name: Optional })]).nullish()

/** The scheduled part of a message: nested in it, under an id of its own, or alone (section 3.1). */
export const ScheduledMessage = z.looseObject({
  ...identified,
  status: Status,
  scheduled_at: Optional,
})

export type ScheduledMessage = z.infer<typeof ScheduledMessage>

export const Message = z.looseObject({
  ...identified,
  patient: Reference,
  patient_id: Id.nullish(),
  form: Reference,
  form_id: Id.nullish(),
  packet: Reference,
  packet_id: Id.nullish(),
  document: Reference,
  document_id: Id.nullish(),
  message_type: Optional,
  /** `email` or `sms`. */
  preferred_delivery_method: Optional,
  target_email: Optional,
  /** The recipient of an SMS; the name of the field is not shown, so it may be one of the next two. */
  target_phone_number: Optional,
  target_phone: Optional,
  phone_number: Optional,
  /** `pending`, `scheduled`, `sent`, `failed`, `cancelled`; others are kept as received. */
  status: Status,
  delivery_status: Status,
  scheduled_at: Optional,
  scheduled: ScheduledMessage.nullish(),
  content: Optional,
  sent_at: Optional,
  created_at: Optional,
  updated_at: Optional,
})

export type Message = z.infer<typeof Message>

interface CommonFields {
  /** Id of the patient. */
  readonly patient: string
  /** `form_response_request` asks a patient to respond to a form. */
  readonly message_type?: string
  readonly preferred_delivery_method: 'email' | 'sms'
  /** The patient's own when left out. */
  readonly target_email?: string | null
  readonly target_phone_number?: string | null
  /** Other names that the service may have for the recipient of an SMS. */
  readonly target_phone?: string | null
  readonly phone_number?: string | null
  /** ISO 8601, UTC; sent at once when left out. */
  readonly scheduled_at?: string | null
}

/** Ids of the records that a message refers to, at least one (section 2.2, rule 1). */
type MessageSubject =
  | { readonly form: string; readonly packet?: string; readonly document?: string }
  | { readonly form?: string; readonly packet: string; readonly document?: string }
  | { readonly form?: string; readonly packet?: string; readonly document: string }

/** Fields of a request that creates a message (section 2.2). */
export type MessageFields = CommonFields & MessageSubject

/** Fields of a request that changes an unsent message: time and target (section 3.1), and others if the service allows. */
export type MessageChanges = Partial<CommonFields> & {
  readonly form?: string | null
  readonly packet?: string | null
  readonly document?: string | null
}

/** Fields of a request that changes a scheduled message; the status `cancelled` cancels it (section 3.1). */
export interface ScheduledMessageChanges {
  readonly status?: string
  readonly scheduled_at?: string
}

/** Ids, and the values of a message's own fields; a service may ignore those it does not know. */
export interface MessageFilters {
  readonly patient?: string
  readonly form?: string
  readonly packet?: string
  readonly document?: string
  readonly message_type?: string
  readonly preferred_delivery_method?: string
  readonly target_email?: string
  readonly target_phone_number?: string
  readonly status?: string
}

/** `GET /v2/messages` (section 4.2): pages of messages. Rows must be checked against `filters` by the caller. */
export function listMessages(client: Client, options?: FilterOptions<MessageFilters>): TypedScan<Message> {
  return listFiltered(client, 'messages', 'messages', Message, options)
}

/**
 * `POST /v2/messages` (section 4.2): sends a message, at once or at `scheduled_at`. `record` is null when the
 * service's answer holds none: the message is on its way all the same. Throws `ApiError`: `gone` when the patient or
 * what the message refers to is unknown, `stop` when the fields are refused or when nobody knows whether it was taken.
 */
export function sendMessage(
  client: Client,
  fields: MessageFields,
  options?: CallOptions,
): Promise<RecordAnswer<Message> | EmptyAnswer> {
  return create(client, 'messages', Message, { body: fields }, options)
}

/** `GET /v2/messages/{id}` (section 4.2): one message; verdict `gone` when there is none of this id. */
export function getMessage(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<Message>> {
  return getById(client, 'message', Message, id, options)
}

/**
 * `PUT /v2/messages/{id}` (sections 3.1 and 4.2): changes the time or the target of a message that is not sent yet.
 * Returns the message as it is then. Throws `ApiError`: `gone` when there is none of this id, `dead_letter` when it is
 * sent or cancelled already or the fields are refused, `stop` when nobody knows whether it took effect.
 */
export function changeMessage(
  client: Client,
  id: string,
  fields: MessageChanges,
  options?: CallOptions,
): Promise<RecordAnswer<Message>> {
  return update(client, 'PUT', 'message', Message, id, fields, options)
}

/** `DELETE /v2/messages/{id}` (sections 3.1 and 4.2): cancels a message that is not sent yet. Throws as `changeMessage`. */
export function cancelMessage(client: Client, id: string, options?: CallOptions): Promise<void> {
  return remove(client, 'message', id, options)
}

/**
 * `PATCH /v2/messages/{id}/scheduled` (sections 3.1 and 4.2): changes a scheduled message; `id` is the message's.
 * Returns the scheduled message, which may have an id of its own, or else the message. Throws as `changeMessage`.
 */
export function changeScheduledMessage(
  client: Client,
  id: string,
  fields: ScheduledMessageChanges,
  options?: CallOptions,
): Promise<RecordAnswer<ScheduledMessage>> {
  return update(client, 'PATCH', 'scheduledMessage', ScheduledMessage, id, fields, options, 'message')
}

/** `PATCH /v2/messages/{id}/scheduled` (section 3.1) with status `cancelled`. Returns and throws as `changeScheduledMessage`. */
export function cancelScheduledMessage(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<ScheduledMessage>> {
  return changeScheduledMessage(client, id, { status: 'cancelled' }, options)
}
