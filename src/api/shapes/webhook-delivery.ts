/** A webhook event record: one attempt to deliver (specification, section 2.7; its fields are not shown). */
import { z } from 'zod'
import { Id, identified, Optional, Reference } from './record.ts'

const Count = z.number().nullish()

export const WebhookDelivery = z.looseObject({
  /** Perhaps the attempt's own, not that of the event. */
  ...identified,
  event_id: Id.nullish(),
  webhook_config: Reference,
  webhook_config_id: Id.nullish(),
  event_type: Optional,
  source: Optional,
  status: Optional,
  response_status_code: Count,
  attempts: Count,
  error: Optional,
  created_at: Optional,
  next_retry_at: Optional,
})

export type WebhookDelivery = z.infer<typeof WebhookDelivery>
