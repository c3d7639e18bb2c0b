/** A message, returned and sent (specification, section 2.2; the full set of its fields is not shown). */
import { z } from 'zod'
import { Id, identified, Optional, Reference } from './record.ts'

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
type About =
  | { readonly form: string; readonly packet?: string; readonly document?: string }
  | { readonly form?: string; readonly packet: string; readonly document?: string }
  | { readonly form?: string; readonly packet?: string; readonly document: string }

/** Fields of a request that creates a message (section 2.2). */
export type MessageFields = CommonFields & About

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
