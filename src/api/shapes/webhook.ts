/** Webhook configurations and event records (specification, sections 2.6 and 2.7, which show few of their fields). */
import { z } from 'zod'
import { Id, identified, Optional, Reference } from './record.ts'

/** Only `id`, `target_url` and `signature_secret` are shown (section 2.6). */
export const WebhookConfig = z.looseObject({
  ...identified,
  target_url: Optional,
  event_types: z.array(z.string()).nullish(),
  sources: z.array(z.string()).nullish(),
  is_active: z.boolean().nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type WebhookConfig = z.infer<typeof WebhookConfig>

/** Only the create operation returns the secret; it cannot be fetched later. */
export const CreatedWebhookConfig = WebhookConfig.extend({ signature_secret: z.string().min(1) })

export type CreatedWebhookConfig = z.infer<typeof CreatedWebhookConfig>

/** Fields of a request that creates or updates a configuration; names other than `target_url` are not shown. */
export interface WebhookConfigFields {
  readonly target_url: string
  /** `created`, `updated`, `deleted`. */
  readonly event_types?: readonly string[]
  /** `document`, `form`, `packet`, `patient`, `response`, `packet_response`. */
  readonly sources?: readonly string[]
  readonly is_active?: boolean
}

const Count = z.number().nullish()

/** A webhook event record: one attempt to deliver (section 2.7; its fields are not shown). */
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
