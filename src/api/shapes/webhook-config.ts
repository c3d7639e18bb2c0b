/** A webhook configuration (specification, section 2.6; only `id`, `target_url` and `signature_secret` are shown). */
import { z } from 'zod'
import { identified, Optional } from './record.ts'

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
