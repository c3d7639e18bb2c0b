/**
 * Messages to patients (specification, sections 2.2, 3.1 and 4.2).
 *
 * Invariant: a message is sent to the service again only after 429, so that no patient gets it twice.
 */
import type { Client } from '../client.ts'
import { create, remove, update } from '../http/writes.ts'
import {
  Message,
  type MessageChanges,
  type MessageFields,
  ScheduledMessage,
  type ScheduledMessageChanges,
} from '../shapes/message.ts'
import {
  type CallOptions,
  type EmptyAnswer,
  type FilterOptions,
  getById,
  listFiltered,
  type RecordAnswer,
  type TypedScan,
} from './resource.ts'

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
